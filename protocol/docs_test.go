package protocol

import (
	"fmt"
	"os"
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
