package coaching

import (
	"context"

	"agentd/protocol"
)

// answerOnce is answer, unless another server has the answer or is about to have it.
func (r *request) answerOnce(ctx context.Context) (answer, error) {
	store, session := r.service.shared, r.session.record.ID
	if store == nil {
		return r.answer(ctx)
	}
	for {
		changed := r.service.changed()
		kept, claimed, err := store.Claim(ctx, session, r.id, r.lease.id)
		switch {
		case err != nil:
			return answer{}, err
		case kept != nil:
			return read(kept)
		case claimed:
			return r.settle(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return answer{}, ctx.Err()
		case <-r.session.hard.Done():
			return answer{}, ErrShutdown
		}
	}
}

// settle finds the answer that this request has claimed, and gives it to other servers.
func (r *request) settle(ctx context.Context) (found answer, err error) {
	store, session := r.service.shared, r.session.record.ID
	var keep *Kept
	settled := false
	defer func() {
		if !settled { // a panic must not leave others waiting
			_, _ = store.Settle(context.WithoutCancel(ctx), session, r.id, r.lease.id, nil)
		}
	}()
	found, err = r.answer(ctx)
	if err == nil && found.keep {
		keep = &Kept{found.provider, found.res.AppendJSON(nil)}
	}
	first, failed := store.Settle(context.WithoutCancel(ctx), session, r.id, r.lease.id, keep)
	settled = true
	switch {
	case failed != nil && keep != nil:
		// A caller that sends the request again must get the same answer, so one that is
		// not kept is not given: the caller gets a 503.
		r.service.opts.Log.Warn().Err(failed).Str("run_id", shorten(r.req.RunID, maxLogID)).Msg("coaching answer not kept in the store; the caller gets 503 and may try again")
		return answer{}, &StoreError{failed}
	case keep != nil && first != nil && string(first.Response) != string(keep.Response):
		// This server was away for so long that another one took over.
		return read(first)
	}
	return found, err
}

// read decodes a kept answer.
func read(kept *Kept) (answer, error) {
	res, err := protocol.DecodeSpecializedCoachingResponse(kept.Response)
	if err != nil {
		return answer{}, &StoreError{err}
	}
	return answer{res: res, provider: kept.Provider, keep: true, repeated: true}, nil
}
