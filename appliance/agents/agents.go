// Package agents decides which machines may call the appliance, and what they may do: agents,
// installers and the controllers in new clusters. It verifies their tokens, renews and revokes the
// tokens of an infra-env, and accepts machines that booted before the appliance authenticated them.
//
//	agents.go    the identity of a machine's request
//	allowed.go   the operations and objects of a machine
//	tokens.go    renewal, revocation, and machines without a token
//	sealed.go    sealed images: their time limit, and the machines that fetched their config
//	refusals.go  events about refused machines
//	moves.go     registrations under the ID of a host in another infra-env
//
// Package access/machine has the format of the tokens.
//
// Design: docs/design.md#tokens-of-machines.
package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/access/machine"
	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// Options holds the dependencies of a service.
type Options struct {
	DB     *store.DB
	Engine *engine.Engine
	// Issuer is nil if the appliance does not authenticate machines.
	Issuer *machine.Issuer
	// ImageURLs returns the beginnings of the image URLs with a path and with the code of a short
	// URL, which may be "". nil returns none.
	ImageURLs func(path, code string) []string
	Clock     clockwork.Clock // nil means the real clock
	Logger    *slog.Logger    // nil discards
}

// Service authenticates machines. Its methods are safe for concurrent use.
type Service struct {
	options  Options
	verifier *machine.Verifier // nil if the appliance does not authenticate machines
	refusals *refusals
	seen     *tokenless
	opened   uint64 // the store's revision before the first token was verified
}

// New returns a service. [Service.Run] must run while it is used.
func New(options Options) *Service {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{options: options, refusals: newRefusals(options.Clock), seen: newTokenless(),
		opened: options.DB.Revision()}
	if options.Issuer != nil {
		s.verifier = machine.NewVerifier(options.Issuer, s.keys, options.Clock)
	}
	return s
}

// Enabled reports whether the appliance authenticates machines.
func (s *Service) Enabled() bool { return s != nil && s.verifier != nil }

func (s *Service) keys(infraEnvID string) (machine.Keys, error) {
	row, err := record.ReadInfraEnv(s.options.DB, infraEnvID)
	if err != nil {
		return machine.Keys{}, err
	}
	return row.AgentKeys, nil
}

// Run drops the verified tokens of changed and deleted infra-envs until the context ends, and
// removes the stored fetches of deleted ones. The methods that change tokens drop them before they
// return.
func (s *Service) Run(ctx context.Context) error {
	if s.verifier == nil {
		return nil
	}
	s.removeFetches(ctx, "")
	prefix := record.InfraEnvs.Prefix()
	for from := s.opened; ctx.Err() == nil; from = s.options.DB.Revision() {
		watcher := s.options.DB.Watch(ctx, from, prefix)
		for changes := range watcher.C() {
			for _, change := range changes {
				infraEnvID := strings.TrimPrefix(change.Key, prefix)
				s.verifier.Drop(infraEnvID)
				if change.Deleted {
					s.removeFetches(ctx, infraEnvID)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the changes of infra-envs: %w", err)
		}
	}
	return nil
}

// Request is a request that may be from a machine.
type Request struct {
	Token     string // header X-Secret-Key; may be ""
	Operation string // ID
	// Objects in the path; "" if the path has none.
	Cluster, InfraEnv, Host string
	Address                 string // of the client, without a port
}

// Identify returns the identity, without its address, of a machine that may call an operation. Its
// errors are [*machine.Refusal] for a machine that is not accepted, errors of kind Forbidden for an
// accepted machine that may not call the operation, and failures of the store.
//
// A request without a token is accepted if a person has accepted the machines of its infra-env.
func (s *Service) Identify(ctx context.Context, r Request) (identity access.Identity, err error) {
	if r.Token == "" {
		identity, err = s.identifyTokenless(r)
	} else {
		identity, err = s.verifier.Verify(r.Token)
	}
	if refusal, ok := errors.AsType[*machine.Refusal](err); ok {
		s.report(ctx, r, refusal)
	}
	if err != nil {
		return access.Identity{}, err
	}
	if err := s.Allowed(identity, r.Operation, r.Cluster, r.InfraEnv, r.Host); err != nil {
		return access.Identity{}, err
	}
	return identity, nil
}

// VerifyImage returns the infra-env of a token in an image URL, or a [*machine.Refusal].
func (s *Service) VerifyImage(token string) (infraEnvID string, err error) {
	return s.verifier.VerifyImage(token)
}
