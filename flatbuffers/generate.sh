#!/bin/sh
# Regenerate slatespark/format/_generated from the schemas beside this script. Usage: flatbuffers/generate.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target="$here/../slatespark/format/_generated"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Use a scratch folder: flatc writes an empty __init__.py into every parent package, which would overwrite ours.
flatc --python -o "$scratch" "$here"/shared.fbs "$here"/sst.fbs "$here"/manifest.fbs "$here"/compactions.fbs

made="$scratch/slatespark/format/_generated"
mkdir -p "$target"
rm -f "$target"/*.py
cp "$made"/*.py "$target"/
cat > "$target/README.md" <<END
Output of \`flatbuffers/generate.sh\`, made with $(flatc --version). Never edited by hand: change the schemas in
\`flatbuffers/\` and run the script.
END
