// Package interrupt ends the program's context at signals, and lets a command ask a person first.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// key is the key of the handler in a context.
type key struct{}

// handler receives the signals.
type handler struct {
	mu  sync.Mutex
	ask func(os.Signal) bool
}

// Context returns a context that ends at the first SIGINT, SIGTERM or SIGHUP, unless a question of
// [Ask] decides otherwise. The next signal calls exit immediately. The returned function restores
// the default handling.
func Context(parent context.Context, exit func()) (context.Context, func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, end := watch(parent, signals, exit)
	return ctx, func() {
		signal.Stop(signals)
		end()
	}
}

// Ask makes ask decide whether a signal ends the context. It must be a context of [Context], and is
// unchanged otherwise. Before ask has returned, SIGTERM ends the context, and SIGINT the program.
func Ask(ctx context.Context, ask func(os.Signal) bool) {
	if h, ok := ctx.Value(key{}).(*handler); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ask = ask
	}
}

func watch(parent context.Context, signals <-chan os.Signal, exit func()) (context.Context, func()) {
	h := new(handler)
	ctx, cancel := context.WithCancel(context.WithValue(parent, key{}, h))
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		answered := make(chan bool, 1)
		asking := false
		for {
			select {
			case <-done:
				return
			case stop := <-answered:
				asking = false
				if stop {
					cancel()
				}
			case received := <-signals:
				h.mu.Lock()
				ask := h.ask
				h.mu.Unlock()
				switch {
				case asking && received != os.Interrupt && ctx.Err() == nil:
					cancel() // a service manager is not kept waiting for an answer
				case asking, ctx.Err() != nil:
					exit()
				case ask == nil:
					cancel()
				default:
					asking = true
					go func() { answered <- ask(received) }() // may wait for a person for ever
				}
			}
		}
	})
	return ctx, func() {
		close(done)
		watcher.Wait()
		cancel()
	}
}
