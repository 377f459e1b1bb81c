package siteservice

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/sentence"
	"landfall/appliance/siteservice/link"
)

const (
	// lookInterval is the time between two searches for another server.
	lookInterval = 2 * time.Minute
	// retryInterval is the time after which a service that failed tries again.
	retryInterval = 20 * time.Second
	// addressInterval is the time between two readings of an interface's addresses.
	addressInterval = 5 * time.Second
)

// supervisor runs one service on one interface: it looks for another server, serves, and stops when
// another server appears or the addresses of the interface change.
type supervisor struct {
	of     Switch
	server server
	links  func(name string) (link.Link, error)
	clock  clockwork.Clock
	note   func(Status)
	log    *slog.Logger
	last   State
}

func (s *supervisor) run(ctx context.Context) {
	for ctx.Err() == nil {
		on, err := s.links(s.of.Interface)
		if err == nil && len(on.Prefixes) == 0 {
			err = link.ErrNoAddress
		}
		if err != nil {
			s.fail(ctx, err)
			continue
		}
		others, err := s.server.Look(ctx, on)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.fail(ctx, err)
		case len(others) > 0:
			s.yield(ctx, others)
		default:
			s.serve(ctx, on)
		}
	}
}

// fail notes an error and waits until the service is tried again.
func (s *supervisor) fail(ctx context.Context, err error) {
	s.report(Status{State: StateFailed, Message: sentence.New(err)})
	s.wait(ctx, retryInterval)
}

// yield notes other servers and waits until the service looks for them again.
func (s *supervisor) yield(ctx context.Context, others []link.Other) {
	s.report(Status{State: StateYielded, Others: others, Message: yieldMessage(s.of, others)})
	s.wait(ctx, lookInterval)
}

func yieldMessage(of Switch, others []link.Other) string {
	text := "Another " + of.Service.title() + " server answers on " + of.Interface + ": "
	for i, other := range others {
		if i > 0 {
			text += ", "
		}
		text += other.String()
		if other.Details != "" {
			text += " (" + other.Details + ")"
		}
	}
	return text + ". The appliance does not serve beside it. Switch one of them off."
}

func (s *supervisor) report(status Status) {
	status.Switch = s.of
	s.note(status)
	if status.State == s.last {
		return
	}
	s.last = status.State
	level := slog.LevelInfo
	if status.State != StateServing {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "The state of a service of the site changed.", "service", s.of.Service,
		"interface", s.of.Interface, "state", status.State, "message", status.Message)
}

func (s *supervisor) wait(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-s.clock.After(duration):
	}
}

// serve runs the server until the context ends, it fails, another server appears, or the addresses
// of the interface change.
func (s *supervisor) serve(ctx context.Context, on link.Link) {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := s.server.Serve(serving, on, func() {
			status := Status{State: StateServing}
			for _, address := range on.Addresses() {
				status.Addresses = append(status.Addresses, address.String())
			}
			s.report(status)
		})
		if err == nil && serving.Err() == nil {
			err = errEnded
		}
		ended <- err
		close(ended) // watch may have received the error already
	}()
	others, err := s.watch(serving, on, ended)
	cancel()
	if err == nil {
		err = <-ended
	}
	switch {
	case ctx.Err() != nil:
	case len(others) > 0:
		s.yield(ctx, others)
	case err != nil && !errors.Is(err, context.Canceled):
		s.fail(ctx, err)
	}
}

// watch returns the other servers that appear, the error of the server, or nothing if the addresses
// of the interface have changed or the context has ended.
func (s *supervisor) watch(ctx context.Context, on link.Link, ended <-chan error) ([]link.Other, error) {
	addresses, look := s.clock.NewTicker(addressInterval), s.clock.NewTicker(lookInterval)
	defer addresses.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case err := <-ended:
			return nil, err
		case <-addresses.Chan():
			if now, err := s.links(s.of.Interface); err != nil || !now.Equal(on) {
				return nil, nil
			}
		case <-look.Chan():
			others, err := s.server.Look(ctx, on)
			if err != nil && ctx.Err() == nil {
				s.log.Warn("The search for another server failed.", "service", s.of.Service, "interface",
					s.of.Interface, "error", err)
			}
			if len(others) > 0 {
				return others, nil
			}
		}
	}
}
