package coaching

import (
	"fmt"

	"agentd/coaching/egress"
)

// People are those whom the server's operator lets coach every session, beside the
// session's own backends. A session whose provider is human has its own people, who are
// asked alone.
type People struct {
	Endpoint string // "": nobody
	When     string // PeopleFirst or PeopleFailed; "": PeopleFirst
}

// When people are asked.
const (
	PeopleFirst  = "first"  // before the backends, which are asked when no person answers
	PeopleFailed = "failed" // when the backends gave no correction
)

// policy is where connections for these people may go: to their endpoint, which is the
// operator's own word and so may be at a private address. It is an error when the endpoint
// is no such URL.
func (p People) policy() (*egress.Policy, error) {
	if p.When != PeopleFirst && p.When != PeopleFailed {
		return nil, fmt.Errorf("people can be asked %s or %s, not %q", PeopleFirst, PeopleFailed, p.When)
	}
	return egress.PolicyFor(p.Endpoint)
}

// Check says what is wrong with the endpoint, if anything is.
func (p People) Check() error {
	if p.When == "" {
		p.When = PeopleFirst
	}
	_, err := p.policy()
	return err
}
