//go:build !linux

package scheduler

import "errors"

func shortSlice() error { return errors.ErrUnsupported }
