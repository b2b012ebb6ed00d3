package serve

import (
	"path/filepath"
	"slices"
	"strings"

	"agentd/cmd/internal/hub"
	"agentd/llama/checkpoint"
)

// HubHint is the end of an error about a path or command that does not exist. It is empty unless
// that may be the name of a model at a hub.
func HubHint(path string) string {
	if _, err := hub.Parse(path); err != nil || IsModel(path) {
		return ""
	}
	return ", or use --hf " + path + " for a model of a Hugging Face hub"
}

// spellings are options of other runtimes for the same.
var spellings = map[string]string{"-m": "--model", "-hf": "--hf"}

// spelled replaces spellings. A model in the place of the first option means --model.
func spelled(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if ours, ok := spellings[name]; ok {
			args[i] = ours + strings.TrimPrefix(arg, name)
		}
	}
	if len(args) > 0 && IsModel(args[0]) {
		args = slices.Insert(args, 0, "--model")
	}
	return args
}

// IsModel reports whether an argument is the path of a model and no command or option.
func IsModel(arg string) bool {
	return !strings.HasPrefix(arg, "-") && (strings.EqualFold(filepath.Ext(arg), ".gguf") || checkpoint.IsDirectory(arg))
}
