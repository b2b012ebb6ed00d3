package coaching

import (
	"context"

	"agentd/protocol"
)

type task struct{}

// Coach answers a request for a repair.
func (s *Service) Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
	sess, err := s.acquire(ctx, req.RunID)
	if err != nil {
		return nil, err
	}
	defer sess.leave(0)
	return &protocol.SpecializedCoachingResponse{RequestID: req.RequestID, Status: protocol.CoachingFailed, Reason: "no coach could be reached"}, nil
}
