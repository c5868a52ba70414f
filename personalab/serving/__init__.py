"""How is a server of ours reached, kept from strangers, and ended?"""
