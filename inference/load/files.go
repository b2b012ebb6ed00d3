package load

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentd/llama/checkpoint"
)

// part matches the first of several files into which llama.cpp splits a model.
var part = regexp.MustCompile(`^(.*)-00001-of-(\d{5})\.gguf$`)

// Files returns the paths of the files of the model or adapter at path.
func Files(path string) []string {
	if checkpoint.IsDirectory(path) || checkpoint.IsAdapterDirectory(path) {
		return checkpoint.Files(path)
	}
	paths := []string{path}
	if m := part.FindStringSubmatch(path); m != nil {
		count, _ := strconv.Atoi(m[2]) // five digits
		for i := 2; i <= count; i++ {
			paths = append(paths, fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i, m[2]))
		}
	}
	return paths
}

// Complete returns path, unless it is a checkpoint without config.json or tokenizer.json: a trainer may save tensors
// only. Then it makes a directory in links, with its files, and from the checkpoint base the files that it lacks.
func Complete(path, base, links string) (whole string, err error) {
	own := checkpoint.Files(path)
	lacks := func(name string) bool { return !slices.Contains(own, filepath.Join(path, name)) }
	switch {
	case len(own) == 0 || !lacks("config.json") && !lacks("tokenizer.json"):
		return path, nil
	case base == "" || !checkpoint.IsDirectory(base):
		return "", fmt.Errorf("%s lacks config.json or tokenizer.json; save both there, or start with a directory of both", path)
	}
	base, _ = filepath.Abs(base)
	whole = filepath.Join(links, filepath.Base(path)) // the name is in the version
	err = os.Mkdir(whole, 0o700)
	for i, file := range append(own, checkpoint.Files(base)...) {
		name := filepath.Base(file)
		if err == nil && (i < len(own) || lacks(name) && !strings.Contains(name, ".safetensors")) {
			err = os.Symlink(file, filepath.Join(whole, name))
		}
	}
	return whole, err
}

// Watch returns the total bytes of files, and a function that returns an error if one has changed since.
func Watch(paths ...string) (bytes int64, unchanged func() error, err error) {
	infos := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		if infos[i], err = os.Stat(path); err != nil {
			return 0, nil, err
		}
		bytes += infos[i].Size()
	}
	return bytes, func() error {
		for i, path := range paths {
			before := infos[i]
			after, err := os.Stat(path)
			if err != nil {
				return err
			}
			if !os.SameFile(before, after) || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
				return fmt.Errorf("%s changed while it was read; write it under another name and rename it", path)
			}
		}
		return nil
	}, nil
}
