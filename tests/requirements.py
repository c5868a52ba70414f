"""The product's requirements, and the tests that verify each of them.

Each requirement of the specification has an id, a sentence and at least one test, named as ``file::function``
below ``tests/``. ``test_requirements.py`` fails when a requirement has no test, or names one that does not
exist.
"""

from __future__ import annotations

from typing import NamedTuple


class Requirement(NamedTuple):
    """A promise and the tests that show it."""

    text: str
    tests: tuple[str, ...]


def _by(text: str, *tests: str) -> Requirement:
    return Requirement(text, tests)


_RULES = "unit/graph/test_turn_rules.py"
_ANSWER = "unit/graph/test_answering.py"
_HARD = "integration/graph/test_hard_times.py"
_EXAMPLE = "unit/graph/test_worked_example.py"
_SESSIONS = "unit/storage/test_sessions.py"
_LINE = "unit/storage/test_reply_line.py"
_THOUGHTS = "unit/graph/test_reasoning.py"
_BREAKS = "unit/graph/test_breaks.py"
_SUM = "contract/test_summarize.py"
_LEARN = "contract/test_memorize.py"
_PLAYER = "unit/graph/test_player_memory.py"
_LEARNING = "contract/test_learning.py"
_COMPACT = "contract/test_compact.py"
_STORE = "contract/test_memory_store.py"
_VELOCA, _VELOCA_ARCHIVE = "unit/storage/test_veloca.py", "unit/archive/test_veloca_archive.py"
_VELOCA_REFUSALS = "integration/storage/test_veloca_refusals.py"
_VELOCA_JOURNAL = "unit/storage/test_veloca_journal.py"
_VELOCA_RESTORE = "unit/storage/test_veloca_restoring.py"
_HOSTILE = "unit/archive/test_hostile_files.py"
_AUTHORS, _LORE = "unit/graph/test_authors_words.py", "unit/story/test_lore.py"
_SUBGRAPHS, _STUDIO_CHAT = "unit/graph/test_subgraphs.py", "integration/graph/test_studio_chat.py"
_CONFIG, _PURE = "unit/story/test_config.py", "unit/story/test_rules.py"

REQUIREMENTS: dict[str, Requirement] = {
    # --- spec 0: the product
    "0.env.read_once": _by(
        "The environment is read in one place, with .env behind it",
        "unit/test_settings.py::test_the_environment_decides_root_model_and_embeddings",
        "unit/test_settings.py::test_a_dotenv_file_stands_behind_the_environment",
        "unit/test_settings.py::test_only_settings_reads_the_environment",
    ),
    "0.no_download": _by(
        "Nothing is downloaded at run time",
        "unit/providers/test_tokens.py::test_counting_opens_no_socket_and_writes_no_file",
        "integration/test_offline.py::test_a_turn_and_its_recall_connect_to_nothing_but_loopback",
    ),
    "0.terminal.exit_codes": _by(
        "0 done, 2 bad usage or input, 1 anything else; errors in one sentence on stderr",
        "unit/cli/test_exit_codes.py::test_every_failure_is_an_exit_code_and_at_most_one_sentence",
    ),
    "0.python": _by(
        "The README's snippet runs",
        "integration/test_readme.py::test_the_readmes_python_runs_and_streams_a_reply",
    ),
    "0.setup": _by(
        "An installed copy has its samples, and never writes inside the package",
        "integration/test_packaging.py::test_an_installed_copy_plays_from_a_folder_of_the_users_own",
    ),
    "0.docs": _by(
        "What the READMEs show is what happens",
        "integration/test_readme.py::test_the_session_in_the_readme_is_a_real_one",
    ),
    # --- spec 1: data root, ids, text
    "1.root": _by(
        "data/ in a checkout, PERSONALAB_DATA, or the user's folder, filled with samples on first start",
        "unit/test_settings.py::test_a_new_data_root_is_filled_with_the_samples_and_another_left_alone",
        "integration/test_checkout.py::test_interrupted_seeding_continues_at_the_next_start",
    ),
    "1.private": _by(
        "A new data root is 0700 and its files are 0600, whatever the umask",
        "integration/security/test_permissions.py::test_no_file_of_a_new_root_is_open_to_others",
    ),
    "1.regular": _by(
        "A pipe, a device, a socket or a folder in the place of a data file is named and never waited for",
        "integration/security/test_special_files.py::test_no_command_hangs_or_fails_without_a_sentence",
        "integration/security/test_special_files.py::test_server_stays_responsive_and_ends_on_sigterm",
    ),
    "1.locks": _by(
        "A file system without locks has an error of its own",
        "integration/security/test_failing_calls.py::test_missing_lock_support_is_named_with_its_folder",
    ),
    "1.refused": _by(
        "A refused turn leaves no line, even where the file cannot be shortened",
        "integration/security/test_failing_calls.py::test_refused_turn_leaves_no_line_when_truncation_fails",
        "unit/graph/test_turn_limit.py::test_turn_above_the_limit_is_refused_before_it_is_written",
    ),
    "1.loops": _by(
        "Sessions that continue each other in a loop are read, played and repaired",
        "unit/operations/test_session_links.py::test_story_with_a_loop_goes_on",
        "unit/operations/test_session_links.py::test_doctor_reports_a_loop_and_repairs_it",
    ),
    "1.defaults": _by(
        "A new data root has the shipped defaults; running from a checkout changes no tracked file",
        "integration/test_checkout.py::test_new_root_has_the_defaults_and_not_the_settings_of_the_checkout",
        "integration/test_checkout.py::test_playing_from_a_checkout_leaves_the_work_tree_clean",
    ),
    "1.samples": _by(
        "Two sample stories, one Chinese and one English, of at least five points",
        "unit/test_settings.py::test_the_samples_are_two_stories_in_two_languages",
    ),
    "1.ids": _by(
        "Ids are checked before a path is built, in input and in files",
        f"{_RULES}::test_an_id_that_is_no_id_is_refused_before_a_path_is_built",
        f"{_RULES}::test_ids_inside_files_are_not_trusted_either",
        "unit/operations/test_ids.py::test_every_operation_refuses_what_is_no_id",
        f"{_PURE}::test_what_passes_as_an_id_is_a_plain_file_name",
    ),
    "1.unknown_fields": _by(
        "Unknown fields survive a rewrite",
        f"{_SESSIONS}::test_a_line_survives_being_written_and_read_with_its_unknown_fields",
        f"{_RULES}::test_unknown_fields_of_every_file_survive_a_turn",
        f"{_CONFIG}::test_unknown_fields_survive_a_change",
    ),
    # --- what the sources say twice
    "1.session_names": _by(
        "session_001.jsonl is read, too", f"{_RULES}::test_an_older_trees_session_name_is_read_and_written"
    ),
    "1.config_shapes": _by(
        "The older shape of config.json is read and written back in the new one",
        f"{_CONFIG}::test_the_older_shape_is_read_and_written_back_in_todays",
    ),
    "1.director_switch": _by(
        "modules/director.json; missing or unreadable means off, with a warning",
        f"{_RULES}::test_a_director_switch_that_cannot_be_read_is_off_with_a_warning",
    ),
    "1.config_broken": _by(
        "A broken config.json: default numbers, all features off, a warning, the file left alone",
        f"{_RULES}::test_a_broken_config_means_defaults_all_features_off_and_the_file_left_alone",
    ),
    "1.outline_status": _by(
        "Before the index completed, at it the current status, after it pending",
        f"{_PURE}::test_points_before_the_index_are_completed_the_one_at_it_current_the_rest_pending",
    ),
    "1.markers": _by(
        "The last valid marker stands; one outside the outline changes nothing and warns; only replies are read",
        f"{_RULES}::test_the_last_valid_marker_stands",
        f"{_RULES}::test_a_marker_split_over_tokens_counts_and_one_in_the_users_words_does_not",
    ),
    "1.shorter_outline": _by(
        "A shorter outline keeps the plot state, and never fails",
        f"{_RULES}::test_a_shorter_outline_keeps_the_plot_state_and_shows_every_point_completed",
    ),
    "1.error_line": _by(
        "An error follows the partial text on a new line or stands alone; later prompts leave it out",
        f"{_EXAMPLE}::test_case_4_an_error_is_noted_after_what_had_come",
    ),
    "1.vector_ids": _by(
        "Vector ids carry the instance; a null background is an empty string",
        "unit/retrieval/test_library.py::test_ids_and_metadata_are_those_of_the_spec",
    ),
    # --- the turn
    "1.turn.example": _by(
        "The worked example, line by line",
        f"{_EXAMPLE}::test_turn_42_writes_the_sources_two_lines",
        f"{_EXAMPLE}::test_turn_42_leaves_the_sources_state",
        f"{_EXAMPLE}::test_the_prompt_has_the_sources_sections_in_their_order",
        f"{_EXAMPLE}::test_turns_43_to_46_count_and_then_remind_until_a_marker_comes",
        f"{_EXAMPLE}::test_case_1_a_stopped_reply_is_kept_as_far_as_it_went",
        f"{_EXAMPLE}::test_case_2_a_caller_who_goes_away_leaves_the_same_as_a_stop",
        f"{_EXAMPLE}::test_case_3_an_empty_reply_is_stored_as_such",
    ),
    "1.turn.append": _by(
        "Blank input and input over the limit are refused and nothing is written",
        f"{_RULES}::test_blank_input_is_refused_and_leaves_nothing",
        f"{_RULES}::test_a_megabyte_of_input_is_refused_and_leaves_nothing",
    ),
    "1.turn.required": _by(
        "A missing or broken required file is named, and nothing is left behind",
        f"{_RULES}::test_a_turn_that_cannot_run_leaves_nothing_and_names_the_file",
    ),
    "1.turn.optional": _by(
        "A missing background gives defaults and a warning",
        f"{_RULES}::test_a_missing_background_gives_a_turn_without_one_and_a_warning",
    ),
    "1.turn.cache": _by(
        "The head is stable to the byte; reminder and recalled events do not break the cached prefix",
        f"{_RULES}::test_the_head_is_the_same_to_the_byte_while_nothing_in_it_changed",
        f"{_EXAMPLE}::test_the_model_gets_a_system_head_the_history_and_the_turns_own_notes_last",
    ),
    "1.turn.tokens": _by(
        "Each section's tokens are counted exactly",
        f"{_PURE}::test_the_sections_token_counts_add_up_to_exactly_the_single_texts",
    ),
    "1.turn.limit": _by(
        "Over the limit the turn ends with the source's sentence and can be retried",
        f"{_RULES}::test_a_prompt_over_its_limit_ends_the_turn_and_can_be_retried_later",
    ),
    "1.turn.warnings": _by(
        "One warning a category, in the source's shape",
        f"{_RULES}::test_long_sections_warn_once_each_with_the_sources_object",
    ),
    "1.turn.window": _by(
        "Without load_all, the newest whole turns that fit",
        f"{_RULES}::test_without_load_all_only_the_newest_whole_turns_are_sent",
        f"{_PURE}::test_the_window_holds_the_newest_whole_turns_that_fit",
    ),
    "1.turn.file_first": _by(
        "Every token is in the file before it goes to the caller",
        f"{_ANSWER}::test_no_token_reaches_any_stream_mode_before_the_file_has_it",
    ),
    "1.turn.events": _by(
        "The custom stream carries one typed family of events",
        f"{_EXAMPLE}::test_turn_42_streams_tokens_with_offsets_then_done",
    ),
    "1.turn.cancel": _by(
        "Leaving by task, generator or anyio scope closes the line as interrupted and runs the director",
        f"{_ANSWER}::test_cancelling_the_task_closes_the_line",
        f"{_ANSWER}::test_closing_the_generator_closes_the_line",
        f"{_ANSWER}::test_cancelling_an_anyio_scope_closes_the_line",
        f"{_ANSWER}::test_cancelling_twice_still_closes_the_line",
    ),
    # --- the reply's line
    "1.line.valid": _by(
        "Valid JSON after every token",
        f"{_LINE}::test_the_file_is_valid_json_with_all_the_text_after_every_token",
        f"{_LINE}::test_the_closed_line_is_the_sources_line_to_the_byte",
    ),
    "1.line.repair": _by(
        "After any tear the file opens and nothing shown is lost",
        f"{_LINE}::test_a_torn_write_loses_nothing_that_was_written_before_it",
        f"{_SESSIONS}::test_opening_a_session_cut_anywhere_in_its_last_line_gives_a_session_that_can_be_written",
        f"{_HARD}::test_kills_lose_nothing_that_was_shown",
    ),
    "1.line.durability": _by(
        "fsync mode loses no event", f"{_ANSWER}::test_in_fsync_mode_the_same_tokens_arrive"
    ),
    "1.cache.edits": _by(
        "The cache notices edits by hand",
        f"{_SESSIONS}::test_an_edit_by_hand_that_changes_neither_size_nor_time_is_noticed",
        f"{_RULES}::test_a_hand_edited_session_is_what_the_next_turn_sees",
        f"{_SESSIONS}::test_a_session_changed_in_any_way_during_a_reply_can_be_read_and_holds_the_reply_once",
    ),
    # --- who writes the reply
    "1.caller_writes": _by(
        "The caller gets the prompt and brings the reply; twice the same is harmless, another is an error",
        f"{_ANSWER}::test_the_caller_gets_the_prompt_and_brings_the_reply_in_another_process",
        f"{_ANSWER}::test_the_same_reply_twice_is_harmless_and_another_one_an_error",
    ),
    "1.retry": _by(
        "An unanswered turn is answered without a second user line",
        f"{_ANSWER}::test_an_unanswered_turn_is_answered_without_a_second_user_line",
        f"{_ANSWER}::test_a_turn_with_a_whole_reply_is_not_retried",
    ),
    "1.usage": _by("Usage is returned", f"{_ANSWER}::test_usage_is_returned"),
    "1.odd_text": _by(
        "Emoji, combining marks, U+2028, lone surrogates and NUL are stored as they were said",
        f"{_RULES}::test_odd_text_is_stored_as_it_was_said_and_answered",
    ),
    # --- one writer
    "1.one_writer": _by(
        "Turns never interleave, within and across processes; a second writer gets a busy error",
        f"{_ANSWER}::test_a_second_writer_waits_and_then_learns_who_is_busy",
        f"{_HARD}::test_two_processes_talking_to_one_instance_never_interleave",
        f"{_HARD}::test_twenty_processes_on_twenty_instances_have_no_error",
        f"{_BREAKS}::test_a_run_cancelled_at_any_moment_leaves_the_instance_free_for_the_next_event_loop",
    ),
    "1.readers": _by(
        "Readers never wait, and never disturb the writer",
        f"{_BREAKS}::test_readers_and_a_writer_in_one_process_never_disturb_each_other",
    ),
    "1.stop": _by("Stop works from any process", f"{_HARD}::test_a_stop_from_another_process_ends_the_turn"),
    "1.hard": _by(
        "Full disk, read-only root, deleted session, corrupt line, 50 MB session",
        f"{_HARD}::test_a_disk_that_fills_up_while_streaming_keeps_what_was_shown",
        f"{_HARD}::test_a_read_only_data_root_is_read_and_refuses_to_be_written",
        f"{_HARD}::test_a_session_deleted_during_a_turn_comes_back_with_the_reply",
        f"{_SESSIONS}::test_a_broken_line_in_the_middle_is_named_with_its_number",
        f"{_HARD}::test_a_session_of_fifty_megabytes_takes_a_turn",
    ),
    # --- recall
    "1.recall.trigger": _by(
        "auto, keywords, always, off",
        f"{_PURE}::test_the_sources_keywords_trigger_in_their_mode_and_others_do_not",
        f"{_PURE}::test_auto_mode_knows_who_asks_for_the_past",
        f"{_PURE}::test_off_never_and_always_always_looks_up",
    ),
    "1.recall.detail": _by(
        "Words that ask for detail search the plots",
        f"{_PURE}::test_words_that_ask_for_detail_search_the_plots",
    ),
    "1.recall.hybrid": _by(
        "Dense and lexical search, fused; each item says where it came from and why",
        "unit/retrieval/test_ranking.py::test_words_lead_where_they_are_there_and_meaning_where_they_are_not",
        "contract/test_event_library.py::test_what_was_written_is_found_unchanged_with_the_best_first",
        "unit/graph/test_recall.py::test_a_turn_recalls_what_an_earlier_session_said",
    ),
    "1.recall.confident": _by(
        "Without a keyword only confident matches come in, and often none",
        "unit/retrieval/test_library.py::test_small_talk_is_never_sure_of_anything",
        "unit/graph/test_recall.py::test_small_talk_recalls_nothing",
    ),
    "1.recall.in_prompt": _by(
        "What the prompt already says is never recalled, whatever session and turn the index has it under",
        "unit/graph/test_recall_in_prompt.py::test_recall_never_repeats_the_prompt",
        "unit/graph/test_recall_in_prompt.py::test_kept_turns_are_not_recalled_from_the_real_library",
        "contract/test_event_library.py::test_texts_in_the_prompt_are_left_out_of_every_session",
    ),
    "1.recall.evidence": _by(
        "Asked-for recall brings hits with evidence only, at most n_results",
        "unit/graph/test_recall_in_prompt.py::test_a_question_about_nothing_in_the_story_recalls_no_filler",
    ),
    "1.summary.overlong": _by(
        "A summary leaves turns behind that no prompt can hold, and the next turn goes through",
        "unit/graph/test_overlong_turns.py::test_the_next_turn_works_after_summarizing_an_overlong_turn",
        "unit/graph/test_overlong_turns.py::test_an_overlong_first_turn_can_be_left_behind",
        "unit/graph/test_overlong_turns.py::test_retrying_a_turn_left_behind_says_where_it_is",
    ),
    "1.names.data": _by(
        "Names are inserted last, literally and on one line; names, cards and personas forge no heading",
        "unit/graph/test_names_as_data.py::test_names_are_inserted_literally_and_add_no_heading",
        "unit/graph/test_names_as_data.py::test_cards_and_personas_add_no_heading_to_a_task",
    ),
    "1.config.old_director_switch": _by(
        "The older shape's director switch holds where the module has no file, and moves there at the next save",
        f"{_CONFIG}::test_the_older_director_switch_holds_until_the_module_has_its_own",
        f"{_CONFIG}::test_the_directors_own_file_wins_over_the_older_switch",
    ),
    "2.http.format": _by(
        "Over HTTP a conversation is saved and read, and a memory shown, in the source's shapes",
        "integration/web/test_memory_format.py::test_a_conversation_is_saved_and_read_in_the_formats_shape",
        "integration/web/test_memory_format.py::test_a_memory_has_the_formats_lists",
    ),
    "1.recall.never_fails": _by(
        "An empty or unreadable index gives [] and a warning, never a failed turn",
        "unit/graph/test_recall.py::test_a_broken_library_warns_and_the_turn_goes_on",
    ),
    "1.recall.processes": _by(
        "Several processes read and write the library at once and see each other's events",
        "integration/retrieval/test_many_processes.py"
        "::test_three_processes_write_and_search_at_once_and_all_see_everything",
    ),
    "1.recall.embedder": _by(
        "Another embedder is detected and asks for reindex",
        "unit/retrieval/test_library.py::test_another_embedder_is_refused_until_the_library_is_made_anew",
    ),
    "1.recall.reindex": _by(
        "reindex rebuilds the library from the files alone",
        "unit/operations/test_reindex.py::test_an_index_from_files_alone_answers_as_the_one_written_at_first",
    ),
    # --- models
    "1.models.failures": _by(
        "Each way a provider fails has its own message; the rate limit is retried before the first token only",
        "integration/providers/test_openai_failures.py"
        "::test_a_failure_that_another_try_cannot_mend_is_reported_at_once",
        "integration/providers/test_openai_failures.py"
        "::test_a_passing_failure_is_tried_again_before_the_first_token",
        "integration/providers/test_openai_failures.py::test_after_the_first_token_nothing_is_tried_again",
        "integration/providers/test_openai_failures.py::test_a_silent_server_is_given_up",
        "integration/graph/test_over_http.py::test_each_failure_ends_the_turn_as_the_spec_says",
    ),
    "1.models.real": _by(
        "A real small model writes over HTTP and in the process",
        "unit/providers/test_local.py::test_a_model_file_writes_a_reply_with_its_usage",
        "unit/providers/test_local.py::test_the_same_model_writes_over_http",
        "integration/graph/test_over_http.py::test_a_real_model_plays_a_turn_in_both_ways",
    ),
    "1.models.rehearsal": _by(
        "The rehearsal model says what it is, follows the outline and is deterministic",
        "unit/providers/test_rehearsal.py::test_the_first_reply_says_what_it_is_and_how_to_get_a_model",
        "unit/providers/test_rehearsal.py::test_markers_lead_through_the_whole_outline",
        "unit/providers/test_rehearsal.py::test_the_same_prompt_gets_the_same_reply_and_turns_differ",
    ),
    "1.tokens.offline": _by(
        "Counts are tiktoken's, with nothing downloaded",
        "unit/providers/test_tokens.py::test_the_counts_are_tiktokens",
    ),
    # --- terminal
    "1.terminal.chat": _by(
        "Streaming, /stop, Ctrl-C for the reply alone, history, /retry",
        "e2e/cli/test_chat.py::test_the_reply_streams_above_the_line_one_types_on",
        "e2e/cli/test_chat.py::test_stop_typed_during_a_reply_ends_it",
        "e2e/cli/test_chat.py::test_ctrl_c_ends_the_reply_and_not_the_program",
        "e2e/cli/test_chat.py::test_arrow_up_finds_what_was_typed_in_an_earlier_chat",
        "e2e/cli/test_chat.py::test_an_unanswered_turn_is_told_and_retried",
    ),
    "1.terminal.doctor": _by(
        "doctor says what is wrong and repairs what can be repaired",
        "unit/operations/test_doctor_random.py::test_any_damage_is_repaired_and_no_whole_line_is_lost",
        "unit/operations/test_doctor.py::test_looking_changes_nothing",
    ),
    "1.terminal.light": _by(
        "--help imports nothing heavy", "e2e/cli/test_start.py::test_help_imports_nothing_heavy"
    ),
    # --- settings, language
    "1.settings": _by(
        "Ranges, nothing saved in part, live in every process, reset",
        f"{_CONFIG}::test_the_ranges_are_the_specs",
        f"{_CONFIG}::test_one_wrong_value_among_many_saves_nothing",
        f"{_CONFIG}::test_the_shipped_config_and_a_reset_are_the_sources_defaults",
        f"{_HARD}::test_settings_changed_in_another_process_hold_from_the_next_turn_on",
    ),
    "1.language": _by(
        "Everything a user reads exists in Chinese and English",
        "unit/test_catalogue.py::test_every_language_has_the_same_texts_with_the_same_placeholders",
        f"{_PURE}::test_both_languages_have_the_same_templates_with_the_same_places",
    ),
    # --- spec 5: the MCP server
    "5.tools": _by(
        "The toolset chat by its names, in a stable order, with titles, all annotations, schemas; toolsets chosen",
        "integration/mcp_server/test_resources.py::test_the_tools_are_those_that_are_built_in_a_stable_order",
        "integration/mcp_server/test_budgets.py::test_the_list_of_tools_is_short_and_says_all_of_each",
        "integration/mcp_server/test_budgets.py::test_each_tools_result_is_what_its_schema_says",
        "integration/mcp_server/test_docs.py::test_the_table_of_tools_is_the_servers",
    ),
    "5.writers": _by(
        "Provider, sampling in both eras, the host, rehearsal: chosen for each call, on the one graph",
        "integration/mcp_server/test_turns.py"
        "::test_a_configured_provider_writes_and_its_sentences_are_progress",
        "integration/mcp_server/test_turns.py::test_without_a_provider_a_client_that_offers_sampling_writes",
        "integration/mcp_server/test_turns.py"
        "::test_without_provider_and_sampling_the_rehearsal_model_says_what_it_is",
        "integration/mcp_server/test_turns.py::test_the_host_writes_between_begin_and_end",
        "integration/mcp_server/test_turns.py"
        "::test_twenty_clients_at_once_whose_own_models_write_lose_no_turn",
    ),
    "5.refused_sampling": _by(
        "A client that offers sampling and refuses it is asked once; no error in the story, both eras",
        "integration/mcp_server/test_refused_sampling.py"
        "::test_refused_sampling_falls_back_once_and_for_the_session",
        "integration/mcp_server/test_refused_sampling.py"
        "::test_summary_that_a_client_refuses_to_write_is_left_to_the_host",
        "integration/mcp_server/test_refused_sampling.py::test_chosen_stand_in_never_asks_the_client",
    ),
    "5.optional_arguments": _by(
        "null and empty text mean left out for every optional argument; strict modes read every schema",
        "integration/mcp_server/test_optional_arguments.py::test_blank_optional_argument_counts_as_left_out",
        "integration/mcp_server/test_optional_arguments.py"
        "::test_blanks_are_dropped_at_every_depth_and_nothing_else_is",
        "integration/mcp_server/test_agent_frameworks.py"
        "::test_strict_mode_of_openai_agents_leaves_a_way_to_send_nothing",
        "integration/mcp_server/test_agent_frameworks.py::test_google_genai_reads_every_schema",
    ),
    "5.agent_frameworks": _by(
        "Agents of openai-agents, smolagents, pydantic-ai, Semantic Kernel and AutoGen play three turns",
        "integration/mcp_server/test_agent_frameworks.py::test_agent_of_another_framework_plays_three_turns",
    ),
    "5.request_id": _by(
        "A repeated call gives the same turn: in a row, at once, after a time-out, in a new process",
        "integration/mcp_server/test_turns.py::test_a_request_id_called_three_times_is_one_turn",
        "integration/mcp_server/test_turns.py::test_the_same_request_id_three_times_at_once_is_one_turn",
        "integration/mcp_server/test_http.py"
        "::test_after_a_time_out_the_same_request_id_gives_the_stored_turn",
        "integration/mcp_server/test_stdio.py::test_the_second_half_of_a_call_may_come_to_a_new_server",
    ),
    "5.leaving": _by(
        "Cancellation, a client that disappears, an ending server: the line is closed and the director runs",
        "integration/mcp_server/test_turns.py"
        "::test_a_cancelled_call_closes_its_line_and_its_repetition_returns_it",
        "integration/mcp_server/test_stdio.py"
        "::test_a_reply_is_closed_as_interrupted_however_the_server_is_left",
        "integration/mcp_server/test_http.py"
        "::test_a_modern_client_that_drops_its_connection_interrupts_the_reply",
        "integration/mcp_server/test_http.py::test_places_are_limited_and_a_signal_closes_what_is_open",
        f"{_BREAKS}::test_a_run_cancelled_at_any_moment_leaves_the_instance_free_for_the_next_event_loop",
    ),
    "5.many": _by(
        "Two clients on one story, 50 calls at once: no turn lost or doubled",
        "integration/mcp_server/test_http.py::test_many_calls_on_one_story_are_turns_in_a_row",
        "integration/mcp_server/test_http.py::test_many_stories_are_answered_at_once",
        "integration/mcp_server/test_http.py::test_two_servers_on_one_story_take_turns",
    ),
    "5.whole_story": _by(
        "Ten turns by a host leave the files of the same story in the terminal",
        "integration/mcp_server/test_whole_story.py::test_ten_turns_by_a_host_equal_the_terminals",
    ),
    "5.errors": _by(
        "Whatever a call is given, its error says what to do, leaks nothing and leaves nothing behind",
        "integration/mcp_server/test_arguments.py::test_whatever_a_tool_is_given_its_answer_can_be_acted_on",
        "integration/mcp_server/test_arguments.py"
        "::test_hostile_texts_for_each_argument_of_each_tool_are_answered_in_words",
        "integration/mcp_server/test_arguments.py::test_whatever_address_is_read_the_answer_can_be_acted_on",
    ),
    "5.budgets": _by(
        "Results under 25,000 tokens, paged without loss; the tools' descriptions under 6,000",
        "integration/mcp_server/test_budgets.py::test_the_pages_of_any_session_join_to_its_lines",
        "integration/mcp_server/test_budgets.py"
        "::test_a_giant_reply_is_cut_and_its_rest_is_read_by_the_cursor",
        "integration/mcp_server/test_budgets.py"
        "::test_a_prompt_near_its_limit_is_handed_over_within_the_budget",
    ),
    "5.resources": _by(
        "Resources, templates, completion, updates (also of other processes), the prompts play and recap",
        "integration/mcp_server/test_resources.py::test_every_address_can_be_read_listed_and_completed",
        "integration/mcp_server/test_resources.py"
        "::test_a_modern_client_hears_of_a_story_that_changed_here_or_elsewhere",
        "integration/mcp_server/test_resources.py::test_an_older_client_hears_of_what_it_subscribed_to",
        "integration/mcp_server/test_resources.py::test_the_prompts_begin_a_story_and_look_back_at_one",
    ),
    "5.stdio": _by(
        "stdout carries protocol only",
        "integration/mcp_server/test_stdio.py::test_stdout_carries_nothing_but_protocol",
    ),
    "5.http": _by(
        "Loopback by default, DNS-rebinding protection, bearer token, limits",
        "integration/mcp_server/test_http.py::test_by_default_other_machines_cannot_reach_it",
        "integration/mcp_server/test_http.py"
        "::test_a_page_in_a_browser_cannot_reach_it_through_a_name_of_its_own",
        "integration/mcp_server/test_http.py::test_a_token_is_asked_for_and_enough",
        "integration/mcp_server/test_http.py"
        "::test_too_large_and_unreadable_bodies_are_refused_and_the_server_lives_on",
    ),
    "5.sessions": _by(
        "Sessions are paced and limited per client; the idlest makes room, nobody is locked out",
        "integration/security/test_mcp_sessions.py::test_flood_of_sessions_closes_its_own_idlest",
        "integration/security/test_mcp_sessions.py::test_busy_sessions_outlive_idle_ones",
        "integration/security/test_mcp_sessions.py::test_opening_sessions_is_paced_per_client",
    ),
    "5.heartbeat": _by(
        "A client that asked for progress gets a notification every few seconds while a tool runs",
        "integration/mcp_server/test_progress.py"
        "::test_heartbeat_goes_on_while_the_model_is_silent_or_ends_no_sentence",
        "integration/mcp_server/test_progress.py::test_heartbeat_goes_on_while_a_summary_is_written",
        "integration/mcp_server/test_progress.py::test_client_that_asked_for_no_progress_gets_none",
    ),
    "5.clients": _by(
        "Other clients and the conformance suite, in both eras",
        "e2e/mcp_server/test_foreign_clients.py::test_a_client_writes_replies_itself_and_through_sampling",
        "e2e/mcp_server/test_foreign_clients.py::test_langchain_gets_the_tools_as_its_own",
        "e2e/mcp_server/test_foreign_clients.py::test_the_inspector_approves_of_the_tools_and_calls_them",
        "e2e/mcp_server/test_conformance.py::test_with_the_suites_fixtures_every_scored_scenario_passes",
        "e2e/mcp_server/test_conformance.py::test_the_product_fails_only_what_it_does_not_offer",
    ),
    "5.panel": _by(
        "A panel with outline, counter, warnings and token bars, in the official host library",
        "e2e/mcp_server/test_panel.py::test_the_official_bridge_accepts_the_handshake",
        "e2e/mcp_server/test_panel.py::test_the_outline_marks_what_is_done_here_and_ahead",
        "e2e/mcp_server/test_panel.py::test_no_malformed_answer_breaks_the_panel",
    ),
    "5.desktop": _by(
        "A bundle that the official packer accepts, and snippets that start the server",
        "integration/test_mcpb.py::test_the_official_packer_reads_what_we_pack",
        "integration/test_mcpb.py::test_the_unpacked_bundle_speaks_mcp_and_writes_only_into_the_users_folder",
        "e2e/cli/test_mcp_config.py::test_what_is_pasted_really_starts_the_server",
        "e2e/cli/test_mcp_config.py::test_no_key_and_no_token_is_ever_printed",
    ),
    # --- spec 1: summary, memory
    "1.summary": _by(
        "A session becomes points with plots and provenance, and goes on in the next, in both orders",
        f"{_SUM}::test_session_leads_to_the_next",
        f"{_SUM}::test_long_session_is_summarized_in_pieces_that_know_what_came_before",
        f"{_SUM}::test_unusable_answer_is_requested_once_more_and_then_refused",
        f"{_SUM}::test_preview_shows_the_points_and_writes_nothing",
        "e2e/graph/test_killed.py::test_work_killed_at_any_step_is_done_or_not_and_the_next_try_succeeds",
    ),
    "1.update_memory": _by(
        "The evolved persona grows in qualitative words, with history and undo; the base never changes",
        "unit/graph/test_update_memory.py::test_the_last_turns_change_who_the_character_is",
        "unit/story/test_persona.py::test_an_answer_that_cannot_be_used_says_why",
        f"{_LEARNING}::test_update_grows_the_persona_and_learns_about_the_player",
    ),
    "1.care": _by(
        "Automatic care is off by default, visible and undoable",
        f"{_LEARNING}::test_nothing_is_done_by_itself_unless_it_was_switched_on",
        f"{_LEARNING}::test_character_learns_by_itself_and_it_can_be_undone",
        f"{_LEARNING}::test_long_session_is_summarized_by_itself_and_it_can_be_undone",
    ),
    # --- spec 2: memory of people and conversations
    "2.records": _by(
        "The source's shapes, exactly; a missing field is a ValueError that names it",
        f"{_STORE}::test_a_memory_has_the_sources_fields_and_lists_of_strings",
        f"{_STORE}::test_a_conversation_comes_back_as_the_sources_object",
        f"{_STORE}::test_a_saved_request_is_answered_as_the_source_does",
        f"{_STORE}::test_a_summary_has_one_of_three_forms",
        f"{_STORE}::test_a_missing_field_is_a_value_error_that_names_it",
        f"{_LEARN}::test_the_result_has_the_sources_shape",
    ),
    "2.set_aside": _by(
        "What cannot be read is skipped with a warning and kept aside",
        "unit/retrieval/test_memory_sqlite.py::test_an_entry_that_cannot_be_read_is_set_aside",
        "integration/retrieval/test_memory_postgres.py"
        "::test_rows_that_cannot_be_read_are_set_aside_and_the_rest_is_given",
    ),
    "2.dimension": _by(
        "A vector of the wrong dimension is embedded again",
        f"{_STORE}::test_an_embedder_of_another_dimension_makes_everything_findable_anew",
        "integration/retrieval/test_memory_postgres.py"
        "::test_another_dimension_alters_the_columns_and_drops_the_vectors",
    ),
    "2.pipeline": _by(
        "Three stages; a fact needs a source, a contradiction replaces, the same fact is stored once",
        f"{_LEARN}::test_three_questions_make_a_memory",
        f"{_LEARN}::test_a_fact_without_a_source_message_is_dropped_and_told",
        f"{_LEARN}::test_a_contradicting_fact_replaces_the_old_one_which_stays_in_the_history",
        f"{_LEARN}::test_the_same_conversation_again_asks_nobody_and_changes_nothing",
        f"{_LEARN}::test_a_stage_that_fails_leaves_the_memory_as_it_was",
        f"{_LEARN}::test_an_answer_that_cannot_be_used_is_asked_for_once_more_and_then_recorded",
        "unit/memory/test_changes.py"
        "::test_whatever_is_done_no_fact_stands_twice_and_every_change_can_be_taken_back",
    ),
    "2.unique": _by(
        "One memory a pair, under 50 concurrent saves",
        f"{_STORE}::test_fifty_savers_of_a_new_pair_begin_one_memory",
        f"{_STORE}::test_several_processes_that_save_a_new_pair_begin_one_memory",
    ),
    "2.prompt": _by(
        "The section 对玩家的了解 stands in the head, within its room, and can be switched off",
        f"{_PLAYER}::test_what_is_known_stands_in_the_head_after_the_evolved_persona",
        f"{_PLAYER}::test_of_the_events_only_those_that_fit_the_turn_are_told",
        f"{_PLAYER}::test_nothing_known_or_the_switch_off_leaves_the_section_out",
        f"{_PLAYER}::test_a_character_remembers_its_player_in_another_story",
    ),
    "2.stores": _by(
        "Two stores, one suite, the same answers; PostgreSQL has the source's tables",
        "contract/test_memory_equal.py::test_both_databases_answer_alike",
        "integration/retrieval/test_memory_postgres.py::test_the_tables_are_the_sources",
        "e2e/cli/test_memory.py::test_the_same_commands_work_on_postgresql",
    ),
    "2.search": _by(
        "By meaning and words, by agent and user, with score, type and source",
        f"{_STORE}::test_entries_are_found_by_words_and_by_meaning",
        f"{_STORE}::test_what_is_found_is_the_pairs_own_and_of_the_types_asked_for",
        f"{_STORE}::test_conversations_are_found_by_words_and_by_meaning",
    ),
    "2.entries": _by(
        "Entries are edited and deleted singly, and a whole memory is forgotten",
        "e2e/cli/test_memory.py::test_entries_are_written_mended_removed_and_taken_back_by_hand",
        "e2e/cli/test_memory.py::test_a_conversation_is_saved_learned_from_found_and_forgotten",
        f"{_STORE}::test_forgetting_leaves_nothing_but_how_far_a_story_was_saved",
    ),
    # --- spec 3: the archive and interchange
    "3.store": _by(
        "The source's three arrays, exact fields and conventions; create, read, change, delete softly, sums",
        f"{_VELOCA}::test_what_is_created_is_found_in_the_sources_words",
        f"{_VELOCA}::test_records_are_changed_and_deleted_softly",
        f"{_VELOCA}::test_lists_are_cut_and_filtered",
        f"{_VELOCA}::test_tokens_are_summed_over_the_entries_in_use",
        f"{_VELOCA_ARCHIVE}::test_the_sources_own_example_is_read_and_written_as_it_is",
        f"{_VELOCA_ARCHIVE}::test_arguments_of_a_tool_call_are_json_text",
        f"{_VELOCA_ARCHIVE}::test_fields_that_nobody_knows_survive_reading_and_writing",
        f"{_VELOCA_ARCHIVE}::test_times_are_written_in_utc_with_milliseconds",
    ),
    "3.compact": _by(
        "A model's or the caller's summary stands for the entries before the trigger; undo brings them back",
        "unit/archive/test_veloca_compaction.py"
        "::test_a_compaction_shows_its_summary_and_then_the_entries_from_the_trigger_on",
        "unit/archive/test_veloca_compaction.py"
        "::test_whatever_is_compacted_and_undone_all_comes_back_in_the_end",
        f"{_COMPACT}::test_model_sums_up_the_old_entries_and_the_last_stay",
        f"{_COMPACT}::test_long_conversation_is_told_in_pieces_that_know_the_account_so_far",
        f"{_COMPACT}::test_unusable_answer_is_requested_once_more_and_then_refused",
        "unit/graph/test_compact.py"
        "::test_a_compaction_or_a_change_by_someone_else_meanwhile_is_not_written_over",
    ),
    "3.safe": _by(
        "Several processes, crashes, full disks, other programs: every acknowledged record, once",
        "e2e/storage/test_veloca_killed.py"
        "::test_eight_processes_append_and_fold_at_once_and_every_record_is_there_once",
        "e2e/storage/test_veloca_killed.py::test_writers_that_are_killed_lose_nothing_they_acknowledged",
        "e2e/storage/test_veloca_killed.py"
        "::test_work_killed_at_any_step_is_done_or_not_and_the_next_try_succeeds",
        f"{_VELOCA_REFUSALS}::test_a_disk_that_is_full_leaves_the_old_state_and_a_usable_store",
        f"{_VELOCA_REFUSALS}::test_one_who_waits_in_vain_is_told_so",
        f"{_VELOCA_REFUSALS}::test_an_archive_in_a_folder_that_cannot_be_written_can_be_read",
    ),
    "3.journal": _by(
        "What is written is there for others at once, folded on closing and on size into the source's format",
        f"{_VELOCA_JOURNAL}::test_a_record_is_there_for_others_when_the_call_returns",
        f"{_VELOCA_JOURNAL}::test_the_journal_is_folded_when_it_has_grown",
        f"{_VELOCA_JOURNAL}::test_a_torn_last_line_is_dropped_and_written_over",
        f"{_VELOCA_JOURNAL}::test_what_another_program_writes_is_taken_and_the_journal_put_into_it",
        "e2e/cli/test_archive.py::test_a_session_is_begun_written_and_read_and_any_program_reads_the_file",
    ),
    "3.restore": _by(
        "Rotating backups; a broken file is never overwritten, verify finds it, restore brings all back",
        f"{_VELOCA_RESTORE}::test_backups_rotate_as_pairs",
        f"{_VELOCA_RESTORE}::test_a_broken_file_is_not_overwritten_and_restored_whole",
        f"{_VELOCA_RESTORE}::test_verify_finds_what_other_programs_got_wrong",
        f"{_VELOCA_RESTORE}::test_a_file_that_vanished_is_not_taken_for_an_empty_archive",
        "e2e/cli/test_archive.py::test_a_broken_file_is_told_left_alone_and_brought_back",
    ),
    "3.stories": _by(
        "A story as a Veloca file and back, without loss; summaries are compacted dialogues",
        "unit/storage/test_instance_files.py::test_whatever_is_in_a_story_survives_files_and_veloca",
        "unit/storage/test_instance_files.py"
        "::test_the_worked_example_goes_to_another_root_with_all_it_is_played_with",
        "unit/archive/test_instances.py::test_a_story_is_a_sound_veloca_file_with_the_exact_fields",
        "unit/archive/test_instances.py::test_a_summary_is_triggered_by_the_first_entry_that_is_still_seen",
        "unit/archive/test_instances.py::test_what_another_program_edited_is_edited",
        "unit/operations/test_exporting.py::test_a_story_comes_back_elsewhere_as_it_was",
    ),
    "3.transcripts": _by(
        "Markdown and text go out, and nothing that was said becomes structure",
        "unit/archive/test_transcripts.py::test_a_session_in_markdown",
        "unit/archive/test_transcripts.py::test_a_session_in_plain_text_and_in_chinese",
        "unit/archive/test_transcripts.py::test_nothing_said_becomes_structure",
    ),
    "3.cards": _by(
        "Cards V1, V2, V3 in PNG, JSON and CHARX, in and out, with what we do not know of them",
        "unit/archive/test_card_round_trips.py::test_a_card_that_nobody_changed_goes_out_as_it_came",
        "unit/archive/test_card_round_trips.py::test_a_hand_written_character_comes_back_from_its_card",
        "unit/archive/test_card_round_trips.py"
        "::test_a_card_taken_to_another_version_and_back_has_lost_nothing",
        "unit/archive/test_png.py::test_of_both_chunks_v3_wins_wherever_it_stands",
        "unit/archive/test_cards.py::test_fields_beside_the_data_count_only_where_it_lacks_them",
        "unit/archive/test_cards.py::test_versions_are_told_by_spec_and_newer_ones_are_read",
        "unit/archive/test_cards.py::test_a_book_comes_out_as_it_is_even_without_extensions",
        "unit/archive/test_charx.py::test_assets_travel_packed_as_they_were_and_the_old_card_is_gone",
    ),
    "3.greetings": _by(
        "Greetings open a story, names are filled, instructions are heeded, creator notes are never sent",
        f"{_AUTHORS}::test_a_story_opens_with_the_first_greeting_and_the_players_first_words_are_turn_1",
        f"{_AUTHORS}::test_another_greeting_can_be_chosen_or_none",
        f"{_AUTHORS}::test_names_are_put_in_when_the_prompt_is_made_and_follow_the_setting",
        f"{_AUTHORS}::test_an_authors_instructions_stand_first_and_last",
        f"{_AUTHORS}::test_creator_notes_are_in_no_prompt",
        "unit/archive/test_cards.py::test_notes_to_the_reader_are_nowhere_in_the_character",
    ),
    "3.lore": _by(
        "Lorebook entries enter the head of the prompt by their rules, within budgets, and say why",
        f"{_AUTHORS}::test_lore_stands_before_and_after_the_character_with_its_reasons",
        "e2e/cli/test_authors_words.py::test_the_prompt_tells_which_lore_is_in_and_why",
        f"{_LORE}::test_a_chinese_key_matches_inside_a_sentence_and_the_hit_says_where",
        f"{_LORE}::test_a_constant_entry_needs_no_key",
        f"{_LORE}::test_secondary_keys_decide_by_their_logic",
        f"{_LORE}::test_the_entry_then_the_book_then_the_setting_says_how_far_back",
        f"{_LORE}::test_the_lowest_priority_goes_first_and_constant_entries_last",
        f"{_LORE}::test_entries_stand_by_their_order_then_as_in_the_file_on_their_side_of_the_character",
        f"{_LORE}::test_what_entered_calls_up_others_and_the_hit_names_the_caller",
        "unit/story/test_lore_properties.py::test_no_budget_is_ever_exceeded",
        "unit/archive/test_books.py::test_a_world_info_is_read",
        "unit/archive/test_books.py::test_a_book_that_stands_alone_is_read",
    ),
    "3.chats": _by(
        "SillyTavern chats in and out, swipes kept",
        "unit/archive/test_chats.py::test_a_chat_goes_back_as_it_came",
        "unit/archive/test_chats.py::test_a_session_comes_back_as_it_was",
        "unit/archive/test_chats.py::test_the_text_shown_is_the_chosen_swipe_and_the_others_are_kept",
        "unit/operations/test_importing_stories.py::test_a_story_that_came_in_goes_on",
    ),
    "3.strangers": _by(
        "Files of strangers are measured before they are read, and refused by what is wrong with them",
        f"{_HOSTILE}::test_a_zip_bomb_is_refused_by_what_it_claims",
        f"{_HOSTILE}::test_a_zip_bomb_that_lies_about_its_size_is_unpacked_no_further",
        f"{_HOSTILE}::test_a_chunk_of_a_gigabyte_is_refused_unread",
        f"{_HOSTILE}::test_a_file_cut_off_at_any_byte_is_refused",
        f"{_HOSTILE}::test_json_that_is_too_much_or_none_is_refused_in_every_carrier",
        "unit/archive/test_charx.py::test_a_member_whose_name_leads_astray_has_the_whole_file_refused",
        "unit/archive/test_png.py::test_a_picture_without_a_card_is_said_to_hold_none",
        "unit/archive/test_cards.py::test_a_field_that_cannot_be_used_is_refused_by_its_name",
    ),
    "3.import": _by(
        "An import shows progress, goes on past bad files and lists what it skipped and why; tools do the same",
        "e2e/cli/test_exchange.py::test_a_folder_comes_in_and_what_each_file_became_is_told",
        "e2e/cli/test_exchange.py::test_what_was_skipped_is_listed_with_the_reason_and_is_exit_code_one",
        "e2e/cli/test_exchange.py::test_a_person_sees_how_far_it_is",
        "integration/mcp_server/test_archives.py::test_a_card_comes_in_from_the_folder_or_with_the_call",
        "integration/mcp_server/test_archives.py"
        "::test_what_goes_out_lies_in_the_folder_under_a_new_name_each_time",
        "integration/mcp_server/test_archives.py"
        "::test_the_host_compacts_and_nothing_is_written_before_it_has_answered",
        "integration/mcp_server/test_archives.py::test_no_client_reaches_what_lies_elsewhere",
    ),
    "3.joining": _by(
        "Cards, chats and lorebooks that belong together find each other; a card of ours never duplicates silently",
        "unit/operations/test_import_placeholders.py::test_card_joins_the_chat_that_was_imported_before_it",
        "unit/operations/test_import_placeholders.py::test_ambiguous_names_are_left_alone_and_named",
        "unit/operations/test_import_placeholders.py::test_changed_export_changes_nothing_unasked",
        "unit/operations/test_import_placeholders.py"
        "::test_missing_world_is_asked_for_and_linked_when_it_comes",
        "unit/operations/test_import_placeholders.py::test_world_info_is_exported_under_the_name_of_the_book",
        "e2e/cli/test_exchange.py::test_person_at_a_terminal_is_asked_about_a_card_with_our_id",
        "integration/web/test_exchange.py::test_card_with_our_id_offers_a_choice",
        "integration/mcp_server/test_archives.py::test_card_with_our_id_offers_a_choice",
    ),
    # --- spec 4: the skill lab
    "4.files": _by(
        "Every file of the source, by schema and by its own examples: read leniently, written strictly",
        "unit/lab/test_records.py::test_an_example_of_the_source_is_read_and_nothing_of_it_is_lost",
        "unit/lab/test_records.py::test_an_example_with_real_ids_is_written_as_it_was_read",
        "unit/lab/test_records.py::test_what_the_source_wrote_with_ids_that_are_none_is_not_written_by_us",
        "unit/lab/test_assets.py::test_the_examples_of_the_source_are_a_workspace",
        "unit/graph/test_iterate.py::test_every_file_of_the_source_is_written_strictly_and_the_reports_agree",
    ),
    "4.contradictions": _by(
        "What the source contradicts itself in is derived, and doubted where it is read",
        "unit/lab/test_records.py::test_averages_that_are_not_the_sum_of_their_parts_are_doubted",
        "unit/lab/test_records.py::test_a_round_without_a_strategy_is_read_and_doubted",
        "unit/lab/test_records.py::test_the_best_candidate_is_computed_from_the_rounds",
        "unit/lab/test_records.py::test_a_candidate_has_six_parts_when_written",
        "unit/lab/test_records.py::test_only_what_is_completed_has_scores",
        "unit/lab/test_records.py::test_times_with_fractions_are_read_and_times_in_seconds_written",
        "unit/lab/test_editing.py::test_the_record_names_added_removed_and_changed_cases",
        "unit/lab/test_editing.py::test_names_of_one_second_are_told_apart_by_numbers",
        "unit/lab/test_editing.py::test_every_project_has_a_slug_that_a_folder_can_have",
        "unit/lab/test_editing.py::test_tokens_are_estimated_by_four_characters_or_one_chinese_character",
        "unit/lab/test_ranking.py"
        "::test_failed_cases_are_no_part_of_the_average_and_who_lacks_cases_ranks_after",
        "unit/graph/test_evaluate.py::test_several_baselines_keep_their_results_apart",
        "unit/lab/test_engine.py::test_the_plateau_level_follows_the_rounds_without_gain",
    ),
    "4.assets": _by(
        "Skills and baselines: one immutable folder a version, history, archive, tags that wait, cases",
        "unit/lab/test_assets.py::test_an_edit_makes_a_folder_and_leaves_the_old_one_byte_for_byte",
        "e2e/lab/test_assets_killed.py"
        "::test_work_killed_at_any_step_is_done_or_not_and_the_next_try_succeeds",
        "unit/lab/test_tags.py::test_a_models_tags_wait_for_a_word_and_the_session_is_closed",
        "unit/lab/test_tags.py::test_a_person_approves_and_rejects_and_may_think_better_of_it",
        "unit/lab/test_assets_sessions.py::test_active_and_closed_sessions_expire_and_lose_their_exports",
        "unit/lab/test_contexts.py::test_run_obeys_the_context_of_its_project",
        "unit/lab/test_baselines.py::test_cases_are_added_changed_and_removed_each_as_a_version",
        "unit/lab/test_baselines.py::test_a_models_cases_wait_until_they_are_taken_as_one_change",
    ),
    "4.exchange": _by(
        "SKILL.md with evals.json, plain text, promptfoo and personas come in; export is a lossless round trip",
        "unit/lab/test_skill_exchange.py::test_a_folder_comes_in_whole_and_leaves_byte_for_byte",
        "unit/lab/test_formats_skill_md.py::test_a_skill_that_leaves_comes_back_as_it_was",
        "unit/lab/test_formats_evals.py::test_a_baseline_that_leaves_comes_back_as_it_was",
        "unit/lab/test_skill_exchange.py::test_a_promptfoo_configuration_comes_in_and_leaves",
        "unit/lab/test_skill_exchange.py::test_a_persona_that_went_out_and_back_is_the_same_character",
        "unit/lab/test_skill_exchange.py::test_a_folder_that_cannot_be_trusted_leaves_nothing_behind",
    ),
    "4.samples": _by(
        "Two coding skills, two personas, a baseline for each kind with eight cases or more in three categories",
        "unit/lab/test_samples.py::test_each_kind_has_two_skills_in_two_languages_and_a_baseline",
    ),
    "4.run": _by(
        "Create, run, pause, resume, rerun failed, skip; N at a time, retry by cause, a budget stated before",
        "unit/graph/test_evaluate.py::test_a_run_executes_judges_and_ranks",
        "unit/graph/test_evaluate.py::test_a_dry_run_tells_the_plan_and_changes_nothing",
        "unit/graph/test_evaluate.py::test_what_passes_is_tried_again_and_what_does_not_is_not",
        "unit/graph/test_evaluate.py::test_a_pause_lets_calls_under_way_end_and_begins_no_other",
        "unit/graph/test_evaluate.py::test_failed_cases_are_done_anew_only_when_that_is_wanted",
        "unit/graph/test_evaluate.py::test_a_budget_is_never_exceeded_and_a_larger_one_goes_on",
        "unit/lab/test_projects.py"
        "::test_a_skipped_task_is_neither_completed_nor_failed_until_it_is_taken_in_again",
    ),
    "4.once": _by(
        "A call once paid is never paid again: after kill -9 at any moment only what is missing is called",
        "e2e/graph/test_evaluate_killed.py::test_a_run_killed_at_any_moment_ends_as_if_nothing_had_been",
        "integration/providers/test_claude_process.py::test_wherever_we_are_killed_the_call_is_made_once",
        "integration/providers/test_claude_process.py"
        "::test_a_program_outlives_our_death_and_its_answer_is_taken",
        "unit/graph/test_evaluate.py"
        "::test_who_dies_after_an_answer_or_after_it_was_noted_takes_it_from_where_it_is",
        "unit/graph/test_iterate.py::test_an_interrupted_search_goes_on_and_ends_as_an_undisturbed_one",
    ),
    "4.program": _by(
        "The claude command line: hangs, crashes, garbage, rate limits, odd endings; the process group is gone",
        "integration/providers/test_claude_process.py"
        "::test_a_program_that_hangs_is_ended_with_all_it_started",
        "unit/providers/test_claude_cli.py::test_a_failure_says_what_it_is_and_whether_another_try_may_help",
        "unit/providers/test_claude_cli.py::test_the_fourth_try_succeeds_after_three_refusals_for_the_rate",
        "integration/providers/test_fake_claude.py::test_turns_that_ran_out_are_no_error_and_exit_with_0",
        "integration/providers/test_fake_claude.py::test_the_fake_says_what_it_is",
        "integration/providers/test_fake_claude.py::test_an_unknown_flag_is_refused",
        "contract/test_executors.py::test_it_answers_and_says_who_it_is",
    ),
    "4.judge": _by(
        "Blind, structured, repeated if wanted; unusable scores are refused, planted controls block a blind judge",
        "unit/graph/test_evaluate.py::test_the_judges_see_nothing_of_a_skill",
        "unit/graph/test_evaluate.py"
        "::test_a_judgement_that_cannot_be_read_is_asked_for_once_more_with_the_reason",
        "unit/graph/test_evaluate.py::test_a_judge_that_fails_keeps_the_answer_and_only_it_is_asked_again",
        "unit/graph/test_evaluate.py::test_a_judge_that_cannot_tell_planted_answers_apart_blocks_the_ranking",
        "unit/lab/test_judging.py::test_what_is_no_score_is_refused_by_its_field",
        "unit/graph/test_evaluate.py::test_several_judges_and_repeats_give_their_mean",
        "unit/graph/test_evaluate.py::test_the_arm_without_a_skill_is_measured_and_not_ranked",
    ),
    "4.ranking": _by(
        "Average, spread and interval per skill; overlapping intervals are ties, the source's rank stays plain",
        "unit/lab/test_ranking.py::test_ranks_whose_intervals_overlap_with_the_first_of_their_group_are_ties",
        "unit/lab/test_ranking.py::test_ranks_are_plain_and_equals_go_by_id",
        "unit/lab/test_ranking.py::test_students_quantiles_are_those_of_the_tables",
    ),
    "4.analysis": _by(
        "Leaders are computed; segments are exact substrings of a skill",
        "unit/lab/test_analysis.py::test_leaders_are_who_has_most_in_a_dimension",
        "unit/lab/test_analysis.py::test_segments_named_by_line_numbers_are_exact_quotes",
        "unit/lab/test_analysis.py::test_correction_note_is_never_stored_as_an_issue",
    ),
    "4.retention": _by(
        "A recomposition or an iteration that would drop a kept segment is impossible",
        "unit/lab/test_recomposing.py::test_no_content_passes_that_lost_a_kept_segment",
        "unit/lab/test_recomposing.py::test_a_writer_that_loses_a_kept_segment_is_told_once_and_then_refused",
        "unit/lab/test_engine.py::test_every_candidate_contains_what_has_to_stay",
        "unit/graph/test_iterate.py::test_a_kept_segment_is_in_every_candidate",
        "unit/graph/test_iterate.py::test_a_candidate_without_a_kept_segment_cannot_be_written",
    ),
    "4.iterate": _by(
        "Pooled evidence, screening, promotion, no content twice, the last two re-tested; only winners are kept",
        "unit/graph/test_iterate.py"
        "::test_the_search_finds_the_best_set_of_pieces_and_puts_it_into_the_library",
        "unit/graph/test_iterate.py::test_no_content_is_scored_twice_but_for_the_last_test",
        "unit/lab/test_engine_ledger.py"
        "::test_candidates_are_screened_on_all_categories_and_one_a_round_is_promoted",
        "unit/lab/test_engine_ledger.py::test_the_last_two_are_tested_once_more_and_one_of_them_wins",
        "unit/lab/test_engine_ledger.py::test_the_ledger_wins_far_more_than_chance",
        "unit/lab/test_engine_ledger.py"
        "::test_what_is_reported_is_close_to_the_truth_and_closer_than_the_plain_average",
        "unit/lab/test_world.py::test_no_set_is_better_than_the_optimum",
        "unit/lab/test_benching.py::test_the_bench_gives_the_same_rows_for_the_same_seeds",
    ),
    "4.stale": _by(
        "An edit during a run does not change the run; the leaderboard shows it as stale",
        "unit/graph/test_evaluate.py"
        "::test_an_edit_during_a_run_changes_nothing_in_it_and_makes_its_score_stale",
        "unit/lab/test_leaderboard.py::test_a_score_is_stale_by_version_and_by_content",
        "unit/lab/test_leaderboard.py::test_the_board_follows_the_library",
    ),
    "4.reports": _by(
        "A self-contained page, JUnit XML, CSV; whatever stands in them is text",
        "unit/lab/test_reports.py::test_a_whole_project_shows_all_its_parts_in_order",
        "unit/lab/test_reports.py::test_a_page_runs_nothing_and_fetches_nothing",
        "e2e/lab/test_reports_browser.py::test_hostile_texts_do_nothing_and_are_shown",
        "unit/lab/test_reports_files.py::test_every_format_has_its_name_and_kind",
    ),
    # --- spec 5: long memory
    "5.growing": _by(
        "persona_summarize and persona_update_memory, written by provider, client or host",
        "integration/mcp_server/test_growing.py::test_a_provider_sums_a_story_up_and_tells_its_steps",
        "integration/mcp_server/test_growing.py"
        "::test_a_clients_model_sums_up_piece_by_piece_and_mends_a_bad_answer",
        "integration/mcp_server/test_growing.py"
        "::test_the_host_sums_up_in_several_rounds_and_nothing_is_written_before_the_last",
        "integration/mcp_server/test_growing.py::test_the_host_lets_a_character_grow_and_learn",
    ),
    "5.memory": _by(
        "The toolset memory",
        "integration/mcp_server/test_memories.py"
        "::test_a_saved_conversation_is_answered_as_the_format_says_and_kept_once",
        "integration/mcp_server/test_memories.py::test_a_memory_is_mended_by_hand_and_taken_back",
        "integration/mcp_server/test_memories.py::test_conversations_are_found_by_what_was_said",
        "integration/mcp_server/test_memories.py::test_nobody_sees_another_agents_conversation",
    ),
    "2.learned_once": _by(
        "Each turn of a story is learned from once, whatever happens between",
        f"{_LEARNING}::test_turns_are_learned_from_once_whatever_their_session",
        f"{_LEARNING}::test_a_session_that_takes_the_name_of_an_undone_one_is_learned_from",
        f"{_LEARNING}::test_two_who_learn_at_once_learn_once",
        f"{_LEARNING}::test_a_conversation_no_answer_fits_holds_up_no_other_and_is_given_up",
    ),
    # --- spec 6: the web page and its API
    "6.one_server": _by(
        "One ASGI app with the API, the page, /mcp, /healthz, /docs; the same in langgraph dev",
        "integration/web/test_operation.py::test_it_says_whether_it_lives_and_takes_turns",
        "integration/web/test_operation.py::test_mcp_plays_a_turn_in_the_same_server_and_shares_its_places",
        "integration/graph/test_studio.py::test_studio_shows_streams_and_cancels_a_turn",
        "e2e/cli/test_mcp_config.py::test_the_command_becomes_the_server_with_its_options",
        "e2e/web/test_browser_access.py::test_the_page_of_the_api_is_usable_by_everyone",
    ),
    "6.huge_turns": _by(
        "Huge turns neither stop the server nor fill the memory, and counting stops far over the limit",
        "integration/security/test_huge_stories.py::test_huge_turns_are_counted_away_from_the_event_loop",
        "integration/security/test_huge_stories.py"
        "::test_a_huge_turn_is_refused_without_blocking_the_event_loop",
        "integration/security/test_huge_stories.py::test_counting_stops_far_over_the_limit",
        "integration/security/test_huge_stories.py::test_pages_of_a_session_are_limited_by_size",
        "integration/security/test_huge_stories.py"
        "::test_importing_huge_messages_takes_less_than_five_times_their_size",
        "unit/providers/test_tokens.py::test_counts_of_pieces_add_up_to_the_whole",
    ),
    "6.long_names": _by(
        "Names and ids of one long word make no page wider than the screen",
        "e2e/web/test_browser_long_names.py::test_pages_with_long_names_are_no_wider_than_the_screen",
        "e2e/web/test_browser_long_names.py::test_dialogs_with_long_names_do_not_scroll_sideways",
    ),
    "6.early_clock": _by(
        "A clock before 1970 is a clear error that names its remedy",
        "integration/security/test_huge_stories.py::test_clock_before_1970_is_a_clear_error",
        "integration/security/test_huge_stories.py::test_event_library_is_not_called_damaged_before_1970",
    ),
    "6.turns_belong_to_the_server": _by(
        "A client that goes away and comes back misses nothing; any number may watch",
        "unit/web/test_watching.py::test_no_gap_and_no_repeat_over_any_number_of_returns",
        "integration/web/test_streams.py::test_whatever_breaks_off_the_client_has_what_the_file_has",
        "integration/web/test_streams.py::test_all_who_watch_hear_the_same_however_late_they_come",
        "integration/web/test_streams.py::test_the_same_request_again_is_the_same_turn",
        "integration/web/test_streams.py::test_who_leaves_before_the_answer_has_said_it_all_the_same",
    ),
    "6.replay": _by(
        "The stream is replayed from the file, then goes live; current_response is what the file holds",
        "integration/web/test_streams.py::test_the_file_is_there_to_read_while_a_reply_is_written",
        "integration/web/test_streams.py::test_a_turn_of_a_session_that_was_summed_up_is_still_told",
        "integration/web/test_restarts.py::test_what_the_terminal_writes_is_watched_live_and_can_be_stopped",
        "unit/web/test_watching.py::test_who_has_read_the_file_is_told_only_the_rest",
        "integration/web/test_told_from_files.py"
        "::test_a_file_is_told_as_it_would_have_been_when_it_was_written",
    ),
    "6.stop_and_retry": _by(
        "Stop interrupts, retry is another attempt",
        "integration/web/test_streams.py::test_stop_ends_the_reply_for_everyone_and_retry_is_another_attempt",
        "e2e/web/test_browser_chat.py::test_stopping_keeps_what_was_written_and_a_retry_answers_anew",
    ),
    "6.on_disconnect": _by(
        "continue by default, or interrupt",
        "integration/web/test_streams.py::test_a_reply_goes_on_when_its_last_watcher_leaves",
        "integration/web/test_streams.py"
        "::test_a_reply_ends_when_its_last_watcher_leaves_if_a_person_wants_that",
    ),
    "6.restart": _by(
        "After the end of the server, however it came, the text is there, marked interrupted",
        "integration/web/test_restarts.py"
        "::test_after_a_power_cut_the_partial_text_is_told_as_interrupted_and_can_be_tried_again",
        "integration/web/test_restarts.py"
        "::test_a_server_that_is_asked_to_end_closes_replies_and_tells_their_watchers",
        "e2e/web/test_browser_chat.py::test_a_server_that_dies_in_mid_reply_comes_back_with_what_was_written",
    ),
    "6.page.first_story": _by(
        "A first story from an empty data root in under six clicks",
        "e2e/web/test_browser_library.py::test_a_first_story_begins_in_under_six_clicks",
    ),
    "6.page.library": _by(
        "Characters, backgrounds with their outline, instances; create, edit, import by drag and drop, export",
        "e2e/web/test_browser_library.py::test_a_character_is_written_changed_and_met",
        "e2e/web/test_browser_library.py::test_an_outline_is_written_and_put_in_order_by_keys_and_buttons",
        "e2e/web/test_browser_library.py::test_files_are_dropped_anywhere_and_told_one_by_one",
        "e2e/web/test_browser_library.py::test_what_is_exported_comes_in_again",
        "e2e/web/test_browser_chat.py::test_files_are_dropped_beside_a_story_too",
        "unit/operations/test_import_places.py::test_a_world_with_its_outline_leaves_and_comes_home",
    ),
    "6.page.chat": _by(
        "Streaming, reload in mid-reply, two tabs, other entrances, the outline",
        "e2e/web/test_browser_chat.py::test_a_reply_grows_as_it_is_written",
        "e2e/web/test_browser_chat.py::test_a_reload_in_mid_reply_loses_and_repeats_nothing",
        "e2e/web/test_browser_chat.py::test_two_tabs_and_another_browser_see_one_turn",
        "e2e/web/test_browser_chat.py::test_a_turn_that_the_terminal_began_appears",
        "integration/web/test_sessions.py::test_a_reply_moves_the_outline_and_the_version",
        "integration/web/test_sessions.py::test_the_chain_of_sessions_is_told_with_one_that_cannot_be_read",
    ),
    "6.page.growth": _by(
        "Summary and memory with progress, preview and undo",
        "e2e/web/test_browser_memory.py::test_a_session_is_summed_up_after_a_look_and_the_summary_taken_back",
        "integration/web/test_growth.py::test_a_summary_is_shown_first_then_made_then_taken_back",
        "integration/web/test_growth.py::test_a_story_that_went_on_after_the_look_is_asked_anew",
        "e2e/web/test_browser_memory.py::test_a_character_grows_after_a_look_and_the_growth_is_taken_back",
        "e2e/web/test_browser_chat.py::test_work_that_is_under_way_is_found_again_after_a_reload",
    ),
    "6.page.warnings": _by(
        "The warnings area as drawn, one a category",
        "e2e/web/test_browser_chat.py::test_warnings_are_a_badge_a_list_and_a_window",
    ),
    "6.page.prompt": _by(
        "What the next turn sends, with token bars and why each section is in",
        "e2e/web/test_browser_memory.py::test_the_inspector_shows_what_the_next_turn_sends_and_why",
        "integration/web/test_prompt.py::test_the_tokens_add_up_and_stand_against_their_limits",
        "integration/web/test_prompt.py::test_every_section_has_a_name_and_a_reason",
    ),
    "6.page.memory": _by(
        "What the character knows: search, edit, forget",
        "e2e/web/test_browser_memory.py::test_what_is_known_is_searched_mended_forgotten_and_brought_back",
    ),
    "6.page.settings": _by(
        "As drawn in the source; ranges checked on both sides; restore default",
        "e2e/web/test_browser_settings.py::test_the_settings_are_drawn_as_the_source_draws_them",
        "e2e/web/test_browser_settings.py::test_what_is_out_of_range_is_refused_at_its_field",
        "e2e/web/test_browser_settings.py"
        "::test_what_slips_past_the_browser_is_refused_by_the_server_at_the_same_field",
        "integration/web/test_settings.py::test_a_change_stands_in_the_file_and_holds_in_another_process",
    ),
    "6.page.lab": _by(
        "Projects, matrix, ranking, iteration plot, leaderboard, approval of tags",
        "e2e/web/test_browser_lab.py::test_a_project_is_made_run_read_and_searched_from_by_clicks_alone",
        "e2e/web/test_browser_lab.py::test_tags_wait_for_a_persons_word",
        "integration/web/test_lab.py"
        "::test_a_run_that_may_cost_money_is_refused_until_it_is_confirmed_and_its_cost_is_unknown_not_zero",
    ),
    "6.page.languages": _by(
        "Chinese and English",
        "e2e/web/test_browser_settings.py::test_one_press_changes_every_word",
        "e2e/web/test_browser_settings.py::test_a_page_begins_in_the_browsers_language",
        "unit/test_catalogue.py::test_every_language_has_the_same_texts_with_the_same_placeholders",
    ),
    "6.page.everyone": _by(
        "Keyboard and screen reader, light and dark, phone",
        "e2e/web/test_browser_access.py::test_axe_finds_nothing_serious_and_nothing_sticks_out",
        "e2e/web/test_browser_access.py::test_a_story_is_begun_and_played_by_keyboard_alone",
        "e2e/web/test_browser_access.py::test_light_or_dark_is_a_choice_that_stays",
        "e2e/web/test_browser_access.py::test_on_a_phone_the_outline_is_a_drawer",
    ),
    "6.page.text": _by(
        "Nothing of models and users is ever run as HTML or script; long ones stay usable",
        "e2e/web/test_browser_safety.py::test_hostile_texts_are_shown_as_texts",
        "e2e/web/test_browser_safety.py"
        "::test_a_message_of_a_hundred_thousand_characters_is_said_and_answered",
        "e2e/web/test_browser_safety.py::test_five_thousand_turns_are_scrolled_through_with_few_elements",
        "unit/web/test_page.py::test_no_text_can_become_markup_or_code",
    ),
    "6.page.self_contained": _by(
        "No build step, no CDN, small",
        "unit/web/test_page.py::test_nothing_comes_from_elsewhere",
        "unit/web/test_page.py::test_what_the_markup_and_the_modules_name_exists",
        "unit/web/test_page.py::test_the_pages_code_is_small",
    ),
    "6.security": _by(
        "Loopback by default, token otherwise; Origin, Host, CSRF, bodies, rates; no path or trace in errors",
        "integration/web/test_door.py::test_a_foreign_name_is_refused_everywhere",
        "integration/web/test_door.py::test_a_foreign_page_is_refused_whatever_it_asks",
        "integration/web/test_door.py::test_what_a_form_can_send_changes_nothing",
        "integration/web/test_door.py::test_without_the_token_nothing_but_the_page_and_the_way_in",
        "integration/web/test_door.py::test_no_address_but_loopback_without_a_token",
        "integration/web/test_door.py::test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not",
        "integration/web/test_door.py::test_who_calls_too_often_is_told_when_to_come_back",
        "integration/web/test_connections.py::test_what_is_no_body_does_not_grow_without_end",
        "integration/web/test_door.py::test_an_error_nobody_expected_says_nothing_of_the_inside",
        "integration/web/test_door.py::test_no_request_however_odd_is_a_500",
        "e2e/web/test_browser_settings.py::test_with_a_token_the_page_asks_for_it_and_then_works",
    ),
    "6.security.models": _by(
        "Remote clients name configured models only; a model's file can neither block nor fill the server",
        "integration/security/test_models.py::test_http_refuses_models_that_are_not_configured",
        "integration/security/test_models.py::test_mcp_refuses_models_that_are_not_configured",
        "integration/security/test_models.py::test_graph_of_a_server_refuses_models_that_are_not_configured",
        "integration/security/test_models.py::test_stored_project_is_refused_at_run_time",
        "integration/security/test_models.py::test_script_must_be_a_small_regular_file",
        "integration/security/test_models.py::test_stuck_model_blocks_no_other",
    ),
    "6.security.flags": _by(
        "Flags for claude are a short list, and come from the terminal only",
        "integration/security/test_flags.py::test_only_listed_flags_pass",
        "integration/security/test_flags.py::test_mcp_takes_no_flags",
        "integration/security/test_flags.py::test_http_takes_no_flags",
        "integration/security/test_flags.py::test_graph_of_a_server_takes_no_flags",
        "integration/security/test_flags.py::test_stored_flags_outside_the_list_are_refused_at_run_time",
    ),
    "6.security.programs": _by(
        "Programs see a short list of variables; planted spool files lead nowhere and get nobody signalled",
        "unit/security/test_child_environment.py::test_child_sees_only_listed_variables",
        "integration/security/test_spool.py::test_planted_files_never_lead_outside",
        "integration/security/test_spool.py::test_only_the_program_that_holds_the_lock_is_ended",
        "integration/security/test_spool.py::test_run_refuses_links_in_a_project",
    ),
    "6.security.fields": _by(
        "docs/security.md lists every field that takes text, and none of them leads out of the data root",
        "integration/security/test_fields.py::test_every_field_is_in_the_table",
        "integration/security/test_fields.py::test_no_argument_of_a_tool_leads_out",
        "integration/security/test_fields.py::test_no_field_of_a_route_leads_out",
    ),
    "6.before_login": _by(
        "Requests without a token take little memory and time and lock nobody out; guessing is slowed down",
        "integration/security/test_requests_before_login.py"
        "::test_many_large_requests_without_token_take_little_memory",
        "integration/security/test_requests_before_login.py::test_body_over_8_kib_needs_token",
        "integration/security/test_requests_before_login.py"
        "::test_request_without_token_is_refused_before_its_body",
        "integration/security/test_requests_before_login.py::test_slow_body_is_cut_off",
        "integration/security/test_requests_before_login.py"
        "::test_idle_connections_without_token_are_limited_per_client",
        "integration/security/test_requests_before_login.py"
        "::test_guessing_client_is_slowed_down_and_others_are_not",
    ),
    "6.background_tasks": _by(
        "No background task ends with an exception that nobody reads",
        "integration/test_background_tasks.py::test_cancelled_import_leaves_no_unread_exception",
        "integration/test_background_tasks.py::test_disconnect_during_a_stream_leaves_no_unread_exception",
        "integration/test_background_tasks.py::test_second_failure_of_parallel_calls_is_read",
    ),
    "6.schema": _by(
        "Every answer is as OpenAPI describes it, no 500",
        "integration/web/test_schema.py::test_every_route_answers_as_it_is_described",
    ),
    "6.operation": _by(
        "Metrics, logs without what was said, container files",
        "integration/web/test_operation.py::test_turns_tokens_times_and_errors_are_counted",
        "integration/web/test_operation.py::test_logs_name_turns_and_never_say_what_was_said",
        "integration/web/test_operation.py::test_the_image_is_made_of_what_is_there",
        "integration/web/test_operation.py::test_compose_names_what_the_settings_know",
    ),
    "6.many": _by(
        "Many clients on many turns: no lost or repeated token",
        "integration/web/test_soak.py::test_two_hundred_clients_on_fifty_turns_hear_what_the_files_hold",
    ),
    "6.docs": _by(
        "docs/web.md is true; the README's pictures are made by the browser tests",
        "integration/web/test_docs.py::test_the_example_plays_a_turn",
        "integration/web/test_docs.py::test_every_route_the_page_names_is_there",
        "e2e/web/test_browser_access.py::test_the_pictures_of_the_documents_can_be_taken_again",
    ),
    # --- Studio
    "1.studio": _by(
        "The real server loads, streams and cancels, with nothing that blocks",
        "integration/graph/test_studio.py::test_studio_shows_streams_and_cancels_a_turn",
        f"{_BREAKS}::test_a_run_paused_before_any_step_goes_on_where_it_was",
        f"{_BREAKS}::test_on_a_servers_thread_each_call_means_only_what_it_says",
    ),
    "1.studio.chat": _by(
        "A graph over messages plays a story in any LangGraph front end; a token is in the file before it is sent",
        "unit/graph/test_chat.py::test_a_thread_plays_a_story",
        "unit/graph/test_chat.py::test_a_token_is_in_the_file_before_it_is_streamed",
        "unit/graph/test_chat.py::test_a_fork_before_an_earlier_turn_becomes_a_new_turn",
        f"{_STUDIO_CHAT}::test_a_generic_front_end_plays_a_story_and_a_crash_repeats_nothing",
    ),
    "1.subgraphs": _by(
        "Every graph runs inside a graph of someone else, with any context, and ends with it",
        f"{_SUBGRAPHS}::test_every_graph_runs_under_a_parent_with_a_context_of_its_own",
        f"{_SUBGRAPHS}::test_a_cancelled_scope_around_a_parent_ends_the_reply",
        f"{_SUBGRAPHS}::test_a_missing_id_is_named_in_the_error",
    ),
    "1.repeated_runs": _by(
        "A run that a server repeats finds its turn",
        f"{_SUBGRAPHS}::test_a_repeated_run_finds_its_turn",
        f"{_SUBGRAPHS}::test_a_parent_may_play_several_turns_in_one_run",
        f"{_STUDIO_CHAT}::test_a_generic_front_end_plays_a_story_and_a_crash_repeats_nothing",
    ),
    "0.tracing": _by(
        "Tracing sends no texts unless someone asks for it, and every entrance says that it is on",
        "integration/providers/test_tracing.py::test_traces_have_no_texts_unless_someone_asks_for_them",
        "integration/providers/test_tracing.py::test_traces_can_be_switched_off",
        "integration/providers/test_tracing.py::test_every_entrance_says_once_that_traces_are_sent",
    ),
    # --- models that play
    "8.prompt_prefix": _by(
        "Everything before the last message stays the same from turn to turn",
        "unit/graph/test_example_dialogue.py"
        "::test_all_messages_but_the_last_stay_the_same_bytes_from_turn_to_turn",
    ),
    "8.examples": _by(
        "Example dialogues are messages with tokens of their own, and dropped first",
        "unit/graph/test_example_dialogue.py::test_examples_are_messages_before_the_first_words",
        "unit/graph/test_example_dialogue.py::test_examples_are_a_section_with_a_heading_and_tokens",
        "unit/graph/test_example_dialogue.py"
        "::test_examples_are_dropped_first_where_the_prompt_would_be_too_long",
    ),
    "8.instructions": _by(
        "A role instruction opens the prompt and a reminder ends it; a card's own replace or wrap them",
        "unit/graph/test_authors_words.py::test_the_shipped_instructions_open_and_close_the_prompt",
        "unit/graph/test_authors_words.py::test_an_authors_instructions_stand_first_and_last",
        "unit/graph/test_authors_words.py::test_an_instruction_may_quote_what_it_replaces",
        "integration/web/test_prompt.py::test_own_instructions_and_examples_are_told_apart_from_templates",
    ),
    "8.player_lines": _by(
        "A reply ends where the model writes a line for the player",
        "unit/story/test_player_lines.py::test_where_the_stream_is_cut_does_not_matter",
        "integration/graph/test_player_lines.py::test_reply_ends_before_a_line_for_the_player",
        "integration/graph/test_player_lines.py::test_model_is_not_waited_for_after_that",
    ),
    "8.notes": _by(
        "Error and empty lines are shown as notices and reach no later prompt",
        "unit/story/test_rules.py::test_old_replies_of_markers_alone_reach_no_later_prompt",
        "integration/web/test_reasoning.py::test_why_a_reply_failed_is_told_apart_from_what_it_said",
        "e2e/web/test_browser_reasoning.py::test_old_replies_of_markers_alone_are_notices_on_every_page",
        "unit/operations/test_overview.py::test_last_words_are_speech_or_a_notice",
        "unit/graph/test_chat.py::test_an_empty_reply_is_a_notice_in_the_readers_language",
    ),
    "8.truncated": _by(
        "A reply that ends at the model's length limit says so everywhere",
        "integration/web/test_reasoning.py::test_reply_at_its_length_limit_says_so_everywhere",
        "e2e/cli/test_say.py::test_reading_shows_reasoning_when_asked_and_a_truncated_reply_always",
        "integration/mcp_server/test_turns.py"
        "::test_a_sampled_reply_that_hit_its_token_limit_is_marked_truncated",
    ),
    "8.markers": _by(
        "Markers are chips on the page and dim in the terminal, or hidden; exports leave them out unless asked",
        "e2e/web/test_browser_reasoning.py::test_markers_of_a_stream_are_chips_or_hidden",
        "e2e/web/test_browser_reasoning.py::test_markers_are_switched_on_the_settings_page",
        "e2e/cli/test_chat.py::test_markers_are_dimmed_at_a_terminal_and_can_be_hidden",
        "e2e/cli/test_commands.py::test_recall_hides_markers_in_texts_but_not_in_json",
        "unit/operations/test_exporting.py::test_markers_and_reasoning_leave_only_when_asked_and_come_back",
    ),
    "8.templates": _by(
        "Untouched older templates give way to better ones; edited ones are kept",
        "unit/storage/test_template_updates.py::test_untouched_older_templates_are_replaced",
        "unit/storage/test_template_updates.py::test_edited_templates_are_kept",
    ),
    "8.wordless": _by(
        "A reply of markers or blanks is asked for once more, then stored as empty; its markers count for nothing",
        f"{_THOUGHTS}::test_reply_without_words_is_asked_for_once_more_with_a_reminder",
        f"{_THOUGHTS}::test_second_reply_without_words_is_stored_as_empty",
        "integration/web/test_reasoning.py::test_second_try_takes_the_place_of_a_wordless_first_one",
    ),
    "8.reasoning": _by(
        "Reasoning of every kind is stored before it is shown, and leaks nowhere",
        f"{_THOUGHTS}::test_misbehaving_server_leaks_and_loses_nothing",
        f"{_LINE}::test_a_torn_write_keeps_reasoning_out_of_the_content",
        "unit/graph/test_reasoning_stays_out.py::"
        "test_reasoning_reaches_no_later_prompt_index_summary_memory_lorebook_or_export",
        "e2e/cli/test_say.py::test_killed_process_keeps_every_thought_and_word_it_showed",
        "integration/web/test_reasoning.py::test_client_has_what_the_file_has_wherever_its_connection_breaks",
        "unit/test_reasoning.py::test_old_line_with_thoughts_in_its_content_is_read_as_if_stored_apart",
    ),
    "8.schemas": _by(
        "Every JSON question carries its schema to providers that can enforce one, with a fallback",
        "unit/test_answer_schemas.py::test_an_answer_that_is_taken_fits_the_schema",
        "integration/providers/test_structured_output.py"
        "::test_refused_schema_is_left_out_and_the_refusal_is_remembered",
        "unit/providers/test_local_structured_output.py::test_the_answer_is_json_of_the_schema",
    ),
}
