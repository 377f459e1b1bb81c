package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/access/machine"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// DefaultGrace is the time for which agents may use a renewed token. An installation takes less,
// and the controller in a new cluster uses its token until the installation ends.
const DefaultGrace = 24 * time.Hour

// Longest times of a renewed token, and of requests without a token.
const (
	maxGrace     = 30 * 24 * time.Hour
	maxTokenless = 7 * 24 * time.Hour
)

// Tokens describes the tokens of an infra-env.
type Tokens struct {
	InfraEnvID string `json:"infra_env_id"`
	Name       string `json:"name"`
	// Since is the time since which images contain tokens; null while they contain none.
	Since *time.Time `json:"tokens_since"`
	// Renewed is the time at which the present signing key was generated.
	Renewed *time.Time `json:"renewed_at"`
	// PreviousUntil is the time until which agents may use a previous token; null if they may not.
	PreviousUntil *time.Time `json:"previous_until"`
	// TokenlessUntil is the time until which machines without a token are accepted.
	TokenlessUntil *time.Time `json:"tokenless_until"`
	// TokenlessHosts are the hosts that booted an image without a token and still need the
	// appliance.
	TokenlessHosts []Host `json:"tokenless_hosts"`
}

// Host is a host whose agent, installer or controller uses the appliance.
type Host struct {
	InfraEnvID string     `json:"infra_env_id"`
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Status     string     `json:"status"`
	ClusterID  string     `json:"cluster_id,omitempty"`
	Registered time.Time  `json:"registered_at"`
	LastSeen   *time.Time `json:"last_seen,omitempty"`
}

// Change is the result of a renewal or a revocation.
type Change struct {
	Tokens
	// Hosts are the hosts that have a token from before the change.
	Hosts []Host `json:"hosts"`
	// InvalidURLs are the beginnings of the image URLs that became invalid.
	InvalidURLs []string `json:"invalid_urls"`
}

// Renew generates a new signing key for an infra-env. Agents may use the previous token for the
// grace time; 0 means [DefaultGrace]. Image URLs with the previous token become invalid at once.
func (s *Service) Renew(ctx context.Context, infraEnvID string, grace time.Duration) (*Change, error) {
	grace = cmp.Or(grace, DefaultGrace)
	if grace < 0 || grace > maxGrace {
		return nil, fault.New(fault.Invalid, "The previous token can be valid for up to %s, not %s.", maxGrace, grace)
	}
	change := func(next *machine.Key, now time.Time) (code string, err error) {
		return "", s.options.Engine.ChangeAgentKeys(ctx, infraEnvID,
			func(env *models.InfraEnv, keys *machine.Keys) (string, error) {
				keys.Renew(next, now.Add(grace), now)
				return fmt.Sprintf("The token of the machines of infra-env %s was renewed. The previous token is "+
					"valid until %s; download the discovery image again.", conv.Value(env.Name),
					now.Add(grace).Format(time.RFC3339)), nil
			})
	}
	return s.change(infraEnvID, change)
}

// Revoke makes all tokens and all image URLs of an infra-env invalid at once: also its short URL,
// which gets a new code. The hosts in the result must boot a new image.
func (s *Service) Revoke(ctx context.Context, infraEnvID string) (*Change, error) {
	change := func(next *machine.Key, _ time.Time) (code string, err error) {
		return s.options.Engine.ReplaceAgentKeys(ctx, infraEnvID,
			func(env *models.InfraEnv, keys *machine.Keys) (string, error) {
				keys.Revoke(next)
				return fmt.Sprintf("The tokens of the machines of infra-env %s were revoked. All URLs of its images "+
					"have changed. Its hosts must boot the new discovery image.", conv.Value(env.Name)), nil
			})
	}
	return s.change(infraEnvID, change)
}

// change changes the keys of an infra-env. The function returns the code of the short URL that
// became invalid, or "".
func (s *Service) change(infraEnvID string, fn func(next *machine.Key, now time.Time) (code string, err error)) (
	*Change, error) {
	if s.options.Issuer == nil {
		return nil, errDisabled()
	}
	now := s.options.Clock.Now().UTC()
	next, err := s.options.Issuer.NewKey(infraEnvID, now)
	if err != nil {
		return nil, err
	}
	hosts, err := s.hosts(infraEnvID, func(*record.Host) bool { return true })
	if err != nil {
		return nil, err
	}
	path, err := s.options.Engine.ImagePath(infraEnvID)
	if err != nil {
		return nil, err
	}
	code, err := fn(next, now)
	s.verifier.Drop(infraEnvID)
	if err != nil {
		return nil, err
	}
	tokens, err := s.Tokens(infraEnvID)
	if err != nil {
		return nil, err
	}
	change := &Change{Tokens: *tokens, Hosts: hosts, InvalidURLs: []string{}}
	if s.options.ImageURLs != nil {
		change.InvalidURLs = s.options.ImageURLs(path, code)
	}
	return change, nil
}

func errDisabled() error {
	return fault.New(fault.Conflict,
		"The appliance does not authenticate machines, so there are no tokens; set auth to local in the configuration.")
}

// AcceptTokenless accepts machines without a token in an infra-env for some time; 0 ends it. It is
// for machines that booted before the appliance authenticated them. A person can also decide it
// before the appliance does so, and a running installation is then not interrupted.
func (s *Service) AcceptTokenless(ctx context.Context, infraEnvID string, during time.Duration) (*Tokens, error) {
	if during < 0 || during > maxTokenless {
		return nil, fault.New(fault.Invalid, "Machines without a token can be accepted for up to %s, not %s.",
			maxTokenless, during)
	}
	if err := s.options.Engine.ChangeAgentKeys(ctx, infraEnvID,
		func(env *models.InfraEnv, keys *machine.Keys) (string, error) {
			if during == 0 {
				keys.AcceptTokenless(time.Time{}, time.Time{})
				return "Machines of infra-env " + conv.Value(env.Name) + " without a token are no longer accepted.", nil
			}
			now := s.options.Clock.Now().UTC()
			until := now.Add(during)
			keys.AcceptTokenless(now, until)
			return fmt.Sprintf("Machines of infra-env %s without a token are accepted until %s.", conv.Value(env.Name),
				until.Format(time.RFC3339)), nil
		}); err != nil {
		return nil, err
	}
	return s.Tokens(infraEnvID)
}

// Tokens describes the tokens of an infra-env.
func (s *Service) Tokens(infraEnvID string) (*Tokens, error) {
	row, err := record.ReadInfraEnv(s.options.DB, infraEnvID)
	if err != nil {
		return nil, err
	}
	return s.describe(row)
}

// Tokenless describes the tokens of the infra-envs with hosts that have no token. If the appliance
// does not authenticate machines, these are the hosts that it would refuse if it did.
func (s *Service) Tokenless() ([]Tokens, error) {
	var rows []*record.InfraEnv
	if err := s.options.DB.View(func(tx *store.Tx) error {
		return record.InfraEnvs.Each(tx, "", func(_ string, row *record.InfraEnv) error {
			rows = append(rows, row)
			return nil
		})
	}); err != nil {
		return nil, err
	}
	found := []Tokens{}
	for _, row := range rows {
		tokens, err := s.describe(row)
		if err != nil {
			return nil, err
		}
		if len(tokens.TokenlessHosts) > 0 || tokens.TokenlessUntil != nil {
			found = append(found, *tokens)
		}
	}
	return found, nil
}

func (s *Service) describe(row *record.InfraEnv) (*Tokens, error) {
	keys, now := row.AgentKeys, s.options.Clock.Now()
	tokens := &Tokens{InfraEnvID: row.API.ID.String(), Name: conv.Value(row.API.Name), Since: optional(keys.Since)}
	if keys.Current != nil {
		tokens.Renewed = &keys.Current.Created
	}
	for _, retired := range keys.Retired {
		if now.Before(retired.Until) {
			tokens.PreviousUntil = &retired.Until
		}
	}
	if keys.AcceptsTokenless(now) {
		tokens.TokenlessUntil = &keys.TokenlessUntil
	}
	var err error
	tokens.TokenlessHosts, err = s.hosts(tokens.InfraEnvID, func(h *record.Host) bool {
		return keys.Since.IsZero() || registered(h).Before(keys.Since) ||
			s.seen.since(h.API.ID.String(), registered(h))
	})
	return tokens, err
}

// hosts returns the selected hosts of an infra-env that use the appliance. An installed host does
// not.
func (s *Service) hosts(infraEnvID string, selected func(*record.Host) bool) ([]Host, error) {
	hosts := []Host{}
	err := s.options.DB.View(func(tx *store.Tx) error {
		return record.Hosts.Each(tx, infraEnvID+"/", func(key string, h *record.Host) error {
			if status := conv.Value(h.API.Status); status == lifecycle.HostInstalled ||
				status == lifecycle.HostAdded || !selected(h) {
				return nil
			}
			host := Host{InfraEnvID: infraEnvID, ID: h.API.ID.String(), Status: conv.Value(h.API.Status),
				Name: cmp.Or(h.API.RequestedHostname, h.Hostname), Registered: registered(h)}
			if h.API.ClusterID != nil {
				host.ClusterID = h.API.ClusterID.String()
			}
			if at, ok := s.options.Engine.LastContact(key); ok {
				host.LastSeen = &at
			}
			hosts = append(hosts, host)
			return nil
		})
	})
	return hosts, err
}

// registered returns the time at which the agent of a host last started.
func registered(h *record.Host) time.Time {
	if at := time.Time(h.API.RegisteredAt); at.After(h.API.CreatedAt) {
		return at
	}
	return h.API.CreatedAt
}

func optional(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// identifyTokenless returns the identity of a request without a token. It is accepted if a person
// has accepted the machines of its infra-env, or of an infra-env of its cluster. The refusal of an
// machine that booted before the appliance authenticated machines is temporary: an installer does
// not repeat a request that is answered 401.
func (s *Service) identifyTokenless(r Request) (access.Identity, error) {
	ids := []string{r.InfraEnv}
	if r.InfraEnv == "" {
		var err error
		if ids, err = s.infraEnvsOf(r.Cluster); err != nil {
			return access.Identity{}, err
		}
	}
	now := s.options.Clock.Now()
	expected := ""
	for _, id := range ids {
		keys, err := s.keys(id)
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return access.Identity{}, err
		}
		if keys.AcceptsTokenless(now) {
			s.seen.add(r.Host, now)
			return access.Identity{Kind: access.Agent, InfraEnv: id}, nil
		}
		if keys.Tokenless || keys.Current == nil {
			expected = id
		}
	}
	if expected != "" {
		s.seen.add(r.Host, now)
		return access.Identity{}, &machine.Refusal{Temporary: true, InfraEnvID: expected,
			Reason: "The machine is not accepted: it booted a discovery image without a token. Boot it from the " +
				"current image, or accept the machines of its infra-env without a token for some hours."}
	}
	return access.Identity{}, errNoToken
}

// errNoToken is the error for a request without credentials. It is not reported, because any
// client may send such a request.
var errNoToken = fault.New(fault.Unauthenticated, "The request contains no token of a machine.")

// infraEnvsOf returns the infra-envs of a cluster and of its hosts.
func (s *Service) infraEnvsOf(clusterID string) ([]string, error) {
	var ids []string
	if clusterID == "" {
		return nil, nil
	}
	add := func(key string) error {
		if id := strings.Split(key, "/")[1]; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		return nil
	}
	err := s.options.DB.View(func(tx *store.Tx) error {
		return errors.Join(record.ClusterInfraEnvs.Keys(tx, clusterID+"/", add),
			record.ClusterHosts.Keys(tx, clusterID+"/", add))
	})
	return ids, err
}

// maxTokenlessSeen limits the remembered hosts without a token.
const maxTokenlessSeen = 4096

// tokenless remembers the hosts that sent requests without a token to this process.
type tokenless struct {
	mu    sync.Mutex
	hosts map[string]time.Time // the last request, by host ID
}

func newTokenless() *tokenless { return &tokenless{hosts: make(map[string]time.Time)} }

func (t *tokenless) add(hostID string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.hosts[hostID]; hostID != "" && (known || len(t.hosts) < maxTokenlessSeen) {
		t.hosts[hostID] = now
	}
}

// since reports whether a host has sent a request without a token after a time.
func (t *tokenless) since(hostID string, after time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hosts[hostID].After(after)
}
