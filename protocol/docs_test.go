package protocol

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The reference for users must name every field, problem and limit.
func TestReferencePageIsComplete(t *testing.T) {
	b, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for model, fs := range modelFields {
		for _, f := range fs {
			if !regexp.MustCompile("[`\"]" + f.name + "[`\"]").MatchString(page) {
				t.Errorf("field %s of %s is not on the page", f.name, model)
			}
		}
	}
	for _, typ := range []string{
		TypeJSONInvalid, TypeMissing, TypeExtraForbidden, TypeInt, TypeIntSize, TypeFloat, TypeFinite, TypeString, TypeBool, TypeList, TypeDict,
		TypeLiteral, TypeStringTooShort, TypeStringPattern, TypeGreaterThan, TypeGreaterEqual, TypeLessEqual, TypeTooShort, TypeTooLong, TypeValue, TypeTooManyProblems,
	} {
		if !strings.Contains(page, "`"+typ+"`") {
			t.Errorf("problem type %s is not on the page", typ)
		}
	}
	for _, typ := range backendTypes {
		if !strings.Contains(page, "`"+typ+"`") {
			t.Errorf("backend type %s is not on the page", typ)
		}
	}
	for _, limit := range []int{MaxDepth, MaxInputs, MaxNumOutputs, MaxCandidates, MaxElements, MaxObjectMembers, MaxProblems, MaxBodyBytes >> 20, MaxRepeated >> 20} {
		if !strings.Contains(page, "| "+thousands(limit)) {
			t.Errorf("limit %d is not on the page", limit)
		}
	}
	for path := range loadOpenAPI(t).Paths.Map() {
		if !strings.Contains(page, path) {
			t.Errorf("endpoint %s is not on the page", path)
		}
	}
}

// thousands writes 1048576 as 1,048,576.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// TestRecipeOfGoClientBuilds runs the commands of the page in a module beside the clone.
func TestRecipeOfGoClientBuilds(t *testing.T) {
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(page), "\nThe Go client ")
	_, recipe, _ = strings.Cut(recipe, "```sh\n")
	recipe, _, _ = strings.Cut(recipe, "```")
	clone, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	beside := t.TempDir()
	module := filepath.Join(beside, "orchestrator")
	program := "package main\n\nimport _ \"agentd/protocol/client\"\n\nfunc main() {}\n"
	if err := errors.Join(os.Symlink(clone, filepath.Join(beside, "agentd")), os.Mkdir(module, 0o700),
		os.WriteFile(filepath.Join(module, "main.go"), []byte(program), 0o600)); err != nil {
		t.Fatal(err)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-ec", "go mod init example.org/orchestrator\n"+recipe+"go build .")
	sh.Dir, sh.Env = module, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=")
	if out, err := sh.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
