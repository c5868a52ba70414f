#!/usr/bin/env bash
# Run a prompt against its test cases in CI: the build fails when a case scores below the limit.
#   examples/lab_in_ci.sh [SCORE] [REPORT.xml]
# Exit codes: 0 every case passed, 100 a case is below the score, 1 a case could not be run.
set -euo pipefail
score=${1:-60}
report=${2:-lab-report.xml}
project="CI $(date -u +%Y%m%dT%H%M%SZ)"

# In your own build, import the prompt and its cases from the repository instead of using the samples:
#   personalab lab skill import prompts/reviewer/
personalab lab samples

personalab lab project new "$project" --skill 2abe --baseline 92e1
code=0
personalab lab run "$project" --yes --max-calls 200 --fail-below "$score" || code=$?
personalab lab report "$project" --format junit --out "$report"
exit "$code"
