"""Word patterns of retention rules: keeping, dropping, changing, denying and excepting.

The lists that only cause a question are wide; the patterns that drop something are narrow and match a whole
clause. ``N`` stands for the names in a clause: one private-use character.
"""

from __future__ import annotations

import re

FIRST, LAST = 0xE000, 0xF8F0
"""The private-use characters that represent names."""

ASIDE = "\uf8ff"
"""Stands before names that were said in parentheses, behind what they are the names of."""

N = f"[{chr(FIRST)}-{chr(LAST)}]"


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# --- signs that a clause speaks of something, in any position

DENY = _words(
    r"不|(?<![特区分识级类个性])别|勿|无|没|未(?!来)|非(?!常)|莫|免|禁|忌|拒|否|忘"
    r"|\bnot\b|n't\b|\bnever\b|without|\bno\b|\bnone\b|\bnor\b|nothing|nobody|neither|cannot|\bdont\b|forbid|prohibit"
    r"|prevent|refus|forg[eo]t|\bfail|hardly|rarely|seldom|unnecessar|unimportant|needless|unless|unneeded|irrelevant"
    r"|pointless|useless|wrong|\bban|optional|mistake|danger|\bbad\b|worse|harm|stupid|silly|waste"
    r"|regret|hate|dislike"
    r"|tired|\bsick\b|little|\bwhy\b|doubt|\btoo (?!$)|反对|错|危险|谁|懒得|何必|何苦|讨厌|干嘛|干什么|凭什么|太"
)
LOSE = _words(
    r"删|除|去|移|剔|排|丢|弃|缺|(?<!至)少|漏|砍|舍|扔|抛|裁|剪|略|跳|避|绕|换|替|代|取消|撤|消|干掉"
    r"|清|废|停|拿|挪|隐|拆|拣|毙|滚|免"
    r"|drop|remov|delet|omit|\blos[eits]|exclud|discard|\bleav|\bleft\b|\bcut|skip|ignor|avoid|strip|\brids?\b"
    r"|eras|eliminat|trim|prun|scrap|toss|throw|ditch|\baxe|kill|nuke|purg|clear|\bout\b|away|\bfrom\b|\boff\b"
    r"|\bback\b|replac|substitut|swap|\bover\b|\bstop|cease|miss|absent|minimum|\bless\b|fewer|reject|dismiss"
    r"|\btake|\bgo\b|\bgoes\b|\bgone\b|\bdie|bury|hide|mov[ei]|pull|wip|delist|disregard|neglect|spare|superfluous"
)
EXCEPT = _words(
    r"除|以外|之外|而不|而非|代替|取代|否则|相比|之间|介于"
    r"|except|other than|all but|anything but|\bbut for\b|apart|aside|besid|\bsave for\b|instead|rather|\bthan\b"
    r"|otherwise|between|versus|\bvs\b|whether|是否"
)
_KEEP = (
    r"保留|保持|保存|保住|留下|留着|留住|留存|包含|包括|含有|必须有|要有|需要|重要|关键|必要|必需|核心|原样"
    r"|\bkeep(?:s|ing)?\b|\bkept\b|\bretain(?:s|ed|ing)?\b|\binclud(?:e|es|ed|ing)\b"
    r"|\bpreserv(?:e|es|ed|ing)\b|\bcontain(?:s|ed|ing)?\b|\bstays?\b|\bremains?\b|\bessential\b|\bimportant\b"
    r"|\bcrucial\b|\bvital\b|\bnecessary\b|\brequired?\b|\bneed(?:s|ed)?\b"
)
KEEP = _words(_KEEP)
INCLUDED = _words(r"包括|包含|含有|\binclud")
CHANGE = _words(
    r"改|变|动|写|译|chang|alter|modif|edit|touch|writ|wrote|rephras|reword|shorten|translat|polish"
)
BACK = _words(
    r"(?<!其)它|这[个些条段]?|那[个些条段]|该|前者|后者|\b(?:it|them|they|this|that|these|those|former|latter|both)\b"
)
IF = _words(
    r"如果|要是|假如|假设|万一|若|当|时|\b(?:if|when|whenever|once|until|till|before|after|because"
    r"|since|so that)\b|之前|以前|以后|之后|直到"
)
REST = _words(r"其余|其他|其它|别的|剩下|\brest\b|\bothers?\b|everything else|anything else|remain")
SPEAKS_OF_SEGMENTS = _words(r"片段|(?<![a-z])segments?(?![a-z])|(?<![a-z])segs?(?![a-z])")
BROKEN_NAME = _words(r"seg(?:ment)?s?[\s_\-#]*\d|seg_")

# --- what is taken away before reading: it denies nothing

IDIOMS = (
    (_words(r"无论如何|无论怎样|不论如何|不管怎样|不管如何|no matter what"), " "),
    (_words(r"(?:不仅|不但|不光|不只|不止)(?:仅)?(?=要?(?:保留|包含|需要))"), " "),
    (_words(r"(?<=keep )not (?:only|just|merely) "), " "),
    (_words(r"不变|一字不[改动差漏变]|(?:必|不)(?:不可|可或)[少缺]|不可或缺|不可缺少"), "原样"),
)

# --- whole clauses

_CAN = r"(?:能|可以?|得|许|准|应该?|要|该|必须?)"
_LOSE_ZH = (
    r"(?:删除|删掉|删去|删|去掉|去除|移除|剔除|砍掉|舍去|舍弃|丢掉|丢弃|丢失|丢|扔掉|弃用|排除|省略"
    r"|略去|略过|跳过|忽略)"
)
_LOSE_EN = (
    r"(?:drop|remove|delete|omit|discard|cut|skip|strip|exclude|erase|ignore|avoid|leave out"
    r"|get rid of|take out)"
)
_CHANGE_ZH = r"(?:改动|改写|修改|更改|改变|变动|改|动)"
_CHANGE_EN = r"(?:rewrite|reword|rephrase|change|alter|modify|edit|touch|shorten|translate)"
_FILLER = r"(?:(?:note|please|also|then|just|again|so|now|but|and)\b|请|注意|也|还|并|再|然后|另外|同时|但|以及|:|\s)"
_FILL = rf"{_FILLER}*+"
_END = r"(?:\s|please\b|too\b|as well\b|entirely\b|completely\b|吧|了|即可|就行|就好|:)*"
_MUST_ZH, _MUST_EN = r"(?:必须|务必|应该?|需要|要|一定要)?", r"(?:you )?(?:must |should )?"
_ALL = r"(?:\s|:|都|也|全|全部|一并|is to|are to|should|must|has to|have to|to)*"
_LOST_EN = (
    r"(?:dropped|removed|deleted|omitted|discarded|cut|skipped|stripped|excluded|erased|ignored|left out)"
)

DROPS = _words(
    rf"{_FILL}{_MUST_ZH}(?:把|将)?{_MUST_EN}(?:{_LOSE_ZH}|{_LOSE_EN})[\s:{ASIDE}]*{N}{_END}"
    rf"|{_FILL}(?:把|将)?\s*{N}{_ALL}{_MUST_ZH}(?:{_LOSE_ZH}|(?:be )?{_LOST_EN}|drop|delete|remove){_END}"
)
"""A known verb, the names, and nothing else of weight."""

DENIED = _words(
    rf"{_FILL}(?:不要|不用|不需要|别用|别要|无需|无须|不必)\s*(?:用|保留|包含)?[\s:{ASIDE}]*{N}{_END}"
    rf"|{_FILL}(?:do not|don't) (?:keep|use|include|retain)[\s:{ASIDE}]*{N}{_END}"
    rf"|{_FILL}{N}{_ALL}(?:不要|不用|不需要|不保留|不必保留){_END}"
)
"""Dropped by denying that it is kept."""

NOT_THIS = _words(rf"{_FILL}not {N}{_END}")

_NO_ZH = rf"(?:绝对?|千万|切|一定|都|也)*(?:不{_CAN}|别|勿|切勿|禁止|莫|不)(?:再|随意|轻易)?"
_NO_EN = (
    r"(?:(?:you )?(?:must|should|may|can|do|shall|will) ?(?:not|n't)|don't|mustn't|shouldn't|can't"
    r"|cannot|never|without)"
)
_LOSING = (
    rf"(?:{_LOSE_EN}|{_CHANGE_EN}|lose|forget|miss|dropping|removing|deleting|losing|omitting|changing"
    rf"|touching|editing)"
)
SPARES = _words(
    rf"{_FILL}{_NO_ZH}(?:把|将)?\s*(?:{_LOSE_ZH}|{_CHANGE_ZH}|缺少|缺|少了?|漏掉?|没有|忘了?|忘记"
    rf"|忘掉)(?:保留)?[\s:{ASIDE}]*{N}"
    rf"(?P<tail>.*)|{_FILL}{_NO_EN} {_LOSING}[\s:{ASIDE}]*{N}(?P<tail2>.*)"
    rf"|{_FILL}{N}\s*{_NO_ZH}(?:被)?(?:{_LOSE_ZH}|{_CHANGE_ZH}|缺少|缺|少|漏掉?|没有){_END}"
    rf"|{_FILL}{N} (?:must|should|may|can|shall|is|are) ?(?:not|n't) (?:to )?be "
    rf"(?:{_LOST_EN}|lost|changed|altered|edited|modified|touched|missing|absent){_END}"
)
"""Kept by denying that it is lost or changed."""

REWRITES = _words(
    rf"{_FILL}{_MUST_ZH}(?:可以)?(?:把|将)?(?:改写|改动|更改|修改|翻译|润色)[\s:]*{N}{_END}"
    rf"|{_FILL}{_CHANGE_EN} {N}(?: (?:in|into|to) [a-z]+)?{_END}"
)
"""Neither kept nor dropped: to be changed."""

_MIDDLE = (
    rf"(?:[\s:,{ASIDE}]|(?:the|all|both|only|just|of|exactly|at least|following|parts?|segments?|segs?)\b"
    r"|以下|全部|所有|片段|编号|好|住|了|着|原来的)*"
)
_LABEL = rf"(?:[^,]{{0,60}}{ASIDE}\s*|\s+the [a-z]+ (?:of |in )?)"
_TAIL = (
    r"(?:[\s:,]|(?:unchanged|intact|verbatim|exactly|word for word|as (?:it |they )?(?:is|are)|too"
    r"|as well|please|only)\b"
    r"|的|原文|内容|全文|原样|全部|部分|都|也|吧|了|即可|就行|这[一两几三二]?[个段条]?|片段)*"
    r"(?:(?:(?:in|at|as|for|to|because|since|with|when|while|if)\b|因为|作为|用于|在|以便|来).*)?"
)
_IS_KEPT = (
    r"(?:保留|留下|留着|留住|留存|保住|必须有|要有|有|需要$|重要|关键|必要|必需|核心|原样"
    r"|(?:keep|kept|retain(?:ed)?|included|preserved|stays?|remains?|essential|important|crucial"
    r"|vital|necessary|required"
    r"|needed)\b)"
)
_IS = (
    r"(?:[\s:,]|(?:is|are|be|to|very|really|must|should|shall|has|have|will|always|absolutely)\b"
    r"|很|非常|必须|都|也|要|应该?|一定|需|得|务必|是|被|最|十分)*"
)
KEEPS = _words(
    rf".*?(?:{_KEEP})(?:{_MIDDLE}|{_LABEL}){N}{_TAIL}"
    rf"|{_FILL}(?:the |that |make sure |ensure |务必让|让|确保)*{N}{_IS}{_IS_KEPT}{_TAIL}"
)
BARE = _words(
    rf"(?:{_FILLER}|(?:especially|plus|also|both|namely|segments?)\b|特别是|尤其是|还有|以及|还要|和"
    rf"|与|及|[\s:\-{ASIDE}])*{N}{_END}"
)
LABELLED = _words(rf"[^:]{{0,40}}{ASIDE}\s*{N}{_END}")
HARMLESS = _words(
    rf"(?:{_FILLER}|rules?|retention rules?|first|second|third|finally|lastly|next|规则|保留规则|要求"
    rf"|首先|其次|最后|第[一二三])*"
)
"""Clauses that may accompany one that drops."""
VERB_ALONE = _words(
    rf"(?:{_FILLER}|都|就|全部?|应该?|要|actually|wait)*(?:{_LOSE_ZH}|{_LOSE_EN}|{_KEEP}|no|not|never"
    rf"|don't|do not|cancel that"
    rf"|不|不行|不要|不对|不可以?|不能|禁止|算了|错了|才怪){_END}"
)
