package fleet

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// drain is how long requests to a former leader may go on, so that a leader that hands over can
// finish them.
const drain = time.Second

// leader is a member while it leads. Its context ends some time after its end.
type leader struct {
	Peer
	host string
	ctx  context.Context
	end  context.CancelFunc

	mu    sync.Mutex
	polls *pipeline // nil before the first poll
}

// pipeline returns the pipeline to the leader. If there is none, or if it has ended, it starts
// another one.
func (l *leader) pipeline(start func(*pipeline)) *pipeline {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.polls == nil || l.polls.ctx.Err() != nil && !errors.Is(context.Cause(l.polls.ctx), errNoPipeline) {
		l.polls = newPipeline(l.ctx)
		start(l.polls)
	}
	return l.polls
}

// present knows the present leader.
type present struct {
	ctx     context.Context // of all leaders
	mu      sync.Mutex
	leader  *leader // nil if there is none
	doubted bool    // etcd does not say whether it still leads
	leads   bool    // but it says so itself
	began   uint64  // how often a member began to lead
	changed chan struct{}
}

func newPresent(ctx context.Context) *present {
	return &present{ctx: ctx, changed: make(chan struct{})}
}

func (l *present) set(by Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted, l.leads = false, false
	if before := l.leader; before != nil {
		if before.Peer == by {
			return
		}
		time.AfterFunc(drain, before.end)
	}
	l.leader = nil
	if by.Name != "" {
		l.began++
		l.leader = &leader{Peer: by, host: by.host()}
		l.leader.ctx, l.leader.end = context.WithCancel(l.ctx)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *present) doubt(of Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != nil && l.leader.Peer == of {
		l.doubted = true
	}
}

func (l *present) led() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader != nil && (!l.doubted || l.leads)
}

// inDoubt returns the member that may no longer lead. ok is false if there is no doubt.
func (l *present) inDoubt() (leader Peer, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader == nil || !l.doubted {
		return Peer{}, false
	}
	return l.leader.Peer, true
}

// say notes whether a member that may no longer lead says that it does.
func (l *present) say(of Peer, leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubted && l.leader.Peer == of {
		l.leads = leads
	}
}

// certain returns the present leader according to etcd, or nil.
func (l *present) certain() *leader {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubted {
		return nil
	}
	return l.leader
}

// name returns the name of the present leader, or "".
func (l *present) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader == nil {
		return ""
	}
	return l.leader.Name
}

// Leader returns the member that leads. ok is false if there is none.
func (f *Forwarder) Leader() (leader Peer, ok bool) {
	f.leaders.mu.Lock()
	defer f.leaders.mu.Unlock()
	if f.leaders.leader == nil {
		return Peer{}, false
	}
	return f.leaders.leader.Peer, true
}

// Leading returns the name of the member that leads, or "".
func (f *Forwarder) Leading() string { return f.leaders.name() }

// Changes returns how often a member began to lead after another one, or after a time without a
// leader.
func (f *Forwarder) Changes() uint64 {
	f.leaders.mu.Lock()
	defer f.leaders.mu.Unlock()
	return max(f.leaders.began, 1) - 1 // the first leader is no change
}

// againAfter is the time after which a request is sent again to the same leader, which may just
// start.
const againAfter = 100 * time.Millisecond

// next waits for a leader. If one was tried before, it waits for another one, or for a moment.
func (l *present) next(ctx context.Context, tried *leader) (*leader, error) {
	pause := time.Duration(0)
	if tried != nil {
		pause = againAfter
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for waited := tried == nil; ; {
		l.mu.Lock()
		present, changed := l.leader, l.changed
		l.mu.Unlock()
		if present != nil && (waited || present != tried) {
			return present, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		case <-timer.C:
			waited = true
		}
	}
}

// ending returns a body that calls a function once when it is closed. It keeps the method Write of
// a connection that changes its protocol.
func ending(body io.ReadCloser, end func()) io.ReadCloser {
	closing := &endingBody{body, sync.OnceFunc(end)}
	if both, ok := body.(io.ReadWriteCloser); ok {
		return &endingConn{closing, both}
	}
	return closing
}

type endingBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

type endingConn struct {
	*endingBody
	io.Writer
}
