package protocol

import (
	"fmt"
	"sync"
	"testing"
)

func TestDecodersRunConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				id := fmt.Sprintf("%d-%d", g, i)
				body := fmt.Appendf(nil, `{"request_id": %q, "inputs": [{"id": %d, "instruction": {"type": "user", "content": %q}, "memory": {"m": %q}}]}`, id, g, id, id)
				if i%5 == 4 {
					body = body[:len(body)-1-i]
				}
				r, err := DecodeAgentRequest(body)
				if i%5 == 4 {
					if err == nil {
						t.Errorf("%s was accepted", body)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", body, err)
					continue
				}
				in := r.Inputs[0]
				if want := fmt.Sprintf(`{"m":%q}`, id); r.RequestID != id || in.ID != int64(g) || in.Instruction.Content != id || string(in.Memory) != want {
					t.Errorf("%s became %+v", body, r)
				}
			}
		})
	}
	wg.Wait()
}
