package hub

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Safetensors is the Choice of a repository's safetensors with their configuration and
// vocabulary.
const Safetensors = "safetensors"

// Name names a model of a hub.
type Name struct {
	Repo   string // OWNER/REPO
	Choice string // a GGUF file, a quantization such as Q8_0, Safetensors, or "": see choose
}

// quantizations are what is taken of several GGUF files, the best first.
var quantizations = []string{"Q4_K_M", "Q8_0"}

var (
	repository = regexp.MustCompile(`^\w[\w.-]*/\w[\w.-]*$`)
	// projector is a file for images, which belongs to a model and is not one.
	projector = regexp.MustCompile(`(?i)mmproj`)
	// part is one of several files of a model: its stem, number, count and type.
	part = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.\w+)$`)
	// directory has the files that load safetensors. Folders below hold other formats.
	directory = regexp.MustCompile(`^[^/]+\.(?:safetensors|json|jinja|txt|model|tiktoken)$`)
)

// Parse reads OWNER/REPO, OWNER/REPO:QUANTIZATION, OWNER/REPO:FILE.gguf or
// OWNER/REPO:safetensors.
func Parse(text string) (Name, error) {
	repo, choice, chosen := strings.Cut(text, ":")
	if !repository.MatchString(repo) || chosen && !validFile(choice) {
		return Name{}, fmt.Errorf("got %q, want OWNER/REPO, OWNER/REPO:Q8_0 or OWNER/REPO:FILE.gguf", text)
	}
	return Name{Repo: repo, Choice: choice}, nil
}

// validFile reports whether a name stays below the directory that it is joined to, and may be
// written to a terminal.
func validFile(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsFunc(name, unicode.IsControl)
}

// choose picks files of a repository, and the one to load, "" for the whole directory. It
// takes all parts of a split model. Without a Choice it takes the only GGUF file, else one of
// quantizations, and the safetensors of a repository without GGUF.
func (n Name) choose(files []string) (chosen []string, target string, err error) {
	ggufs := only(files, func(f string) bool {
		m := part.FindStringSubmatch(f)
		return isGGUF(f) && !projector.MatchString(f) && (m == nil || m[2] == firstPart)
	})
	if n.Choice == Safetensors || n.Choice == "" && len(ggufs) == 0 {
		chosen = only(files, directory.MatchString)
		if !slices.ContainsFunc(chosen, func(f string) bool { return path.Ext(f) == ".safetensors" }) {
			return nil, "", fmt.Errorf("%s has no safetensors; its GGUF files: %q", n.Repo, ggufs)
		}
		return chosen, "", complete(chosen, files)
	}
	if len(ggufs) == 0 {
		return nil, "", fmt.Errorf("%s has no GGUF files; look for a repository with GGUF in its name", n.Repo)
	}
	wanted := []string{n.Choice}
	if n.Choice == "" {
		wanted = quantizations
	}
	var found []string
	for _, w := range wanted {
		if found = only(ggufs, matches(w)); len(found) > 0 {
			break
		}
	}
	if n.Choice == "" && len(ggufs) == 1 {
		found = ggufs
	}
	if len(found) != 1 {
		return nil, "", fmt.Errorf("%d files of %s match %s, and one is needed; name it as %s:FILE: %s", len(found), n.Repo,
			strings.Join(wanted, " or "), n.Repo, strings.Join(ggufs, ", "))
	}
	return parts(found[0]), found[0], complete(found, files)
}

func only(files []string, f func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(files), func(s string) bool { return !f(s) })
}

func isGGUF(file string) bool { return strings.EqualFold(path.Ext(file), ".gguf") }

// matches finds the first file of a model by the name of any of its files, or by its
// quantization, a word of the name.
func matches(wanted string) func(file string) bool {
	if isGGUF(wanted) {
		first := part.ReplaceAllString(wanted, "${1}-"+firstPart+"-of-$3$4")
		return func(file string) bool { return file == first }
	}
	return regexp.MustCompile(`(?i)(?:^|[^a-z0-9])` + regexp.QuoteMeta(wanted) + `(?:[^a-z0-9_]|$)`).MatchString
}

// firstPart is the number of a split model's first file.
const firstPart = "00001"

// parts are all files of a model, of which one is given.
func parts(file string) (list []string) {
	m := part.FindStringSubmatch(file)
	if m == nil {
		return []string{file}
	}
	count, _ := strconv.Atoi(m[3]) // five digits
	for i := range count {
		list = append(list, fmt.Sprintf("%s-%05d-of-%s%s", m[1], i+1, m[3], m[4]))
	}
	return list
}

// complete checks that all parts of the chosen files are there.
func complete(chosen, files []string) error {
	for _, file := range chosen {
		for _, p := range parts(file) {
			if !slices.Contains(files, p) {
				return fmt.Errorf("%s is missing, of which %s is a part", p, file)
			}
		}
	}
	return nil
}
