package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// Limits of sealed images.
const (
	// DefaultSealed is the time for which machines may fetch the config of a sealed image.
	DefaultSealed = 24 * time.Hour
	maxSealed     = 90 * 24 * time.Hour
	maxMachines   = 10_000
	// repeatInterval is the time for which repeated fetches from one address write no further
	// event. Ignition repeats a fetch whose answer broke off.
	repeatInterval = 15 * time.Minute
)

// fetches are the fetches of the configs of sealed images. The key is <infra-env id>/<address>.
var fetches = store.NewBucket[fetch]("config-fetches", 1)

// fetch describes the fetches from one address.
type fetch struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
	// Opened is the opening of the image within which the address last fetched.
	Opened time.Time `json:"opened"`
}

// Sealed describes the sealed images of an infra-env.
type Sealed struct {
	InfraEnvID string `json:"infra_env_id"`
	Name       string `json:"name"`
	Sealed     bool   `json:"sealed"`
	// Open is true while machines may fetch the config: from Opened until Until.
	Open   bool       `json:"open"`
	Opened *time.Time `json:"opened_at"`
	Until  *time.Time `json:"until"`
	// Machines is the largest number of machines that may fetch the config; 0 means no limit.
	Machines int `json:"machines"`
	// Fetches are the addresses that have fetched the config, the latest first.
	Fetches []Fetch `json:"fetches"`
}

// Fetch describes the fetches from one address.
type Fetch struct {
	Address string    `json:"address"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Times   int       `json:"times"`
	// Counts is true if the address counts towards the limit of machines: it has fetched the config
	// since the image was last opened.
	Counts bool `json:"counts"`
}

// Seal seals the images of an infra-env, or opens sealed images again. Machines may then fetch the
// config for some time; 0 means [DefaultSealed]. machines is the largest number of machines; 0
// means no limit. Images that were downloaded sealed remain usable.
func (s *Service) Seal(ctx context.Context, infraEnvID string, during time.Duration, machines int) (*Sealed, error) {
	if s.options.Issuer == nil {
		return nil, fault.New(fault.Conflict,
			"The images can't be sealed, because the appliance does not authenticate "+
				"machines; set auth to local in the configuration.")
	}
	during = cmp.Or(during, DefaultSealed)
	if during < time.Minute || during > maxSealed {
		return nil, fault.New(fault.Invalid,
			"Machines can fetch the config of a sealed image for 1 minute to %d days, "+
				"not %s.", maxSealed/(24*time.Hour), during)
	}
	if machines < 0 || machines > maxMachines {
		return nil, fault.New(fault.Invalid, "The limit of machines is %d; enter a number up to %d, or 0 for no limit.",
			machines, maxMachines)
	}
	if err := s.options.Engine.ChangeAgentKeys(ctx, infraEnvID,
		func(env *models.InfraEnv, keys *machine.Keys) (string, error) {
			text := "The images of infra-env %s are sealed; download them again. Machines may fetch their config " +
				"until %s."
			if keys.Seal != nil {
				text = "The sealed images of infra-env %s were opened again. Machines may fetch their config until %s."
			}
			now := s.options.Clock.Now().UTC()
			keys.Seal = &machine.Seal{Opened: now, Until: now.Add(during), Machines: machines}
			return fmt.Sprintf(text, conv.Value(env.Name), keys.Seal.Until.Format(time.RFC3339)), nil
		}); err != nil {
		return nil, err
	}
	return s.Sealed(infraEnvID)
}

// Close ends the time in which machines may fetch the config of sealed images.
func (s *Service) Close(ctx context.Context, infraEnvID string) (*Sealed, error) {
	if err := s.options.Engine.ChangeAgentKeys(ctx, infraEnvID,
		func(env *models.InfraEnv, keys *machine.Keys) (string, error) {
			if keys.Seal == nil {
				return "", fault.New(fault.Conflict, "The images of infra-env %s are not sealed.", conv.Value(env.Name))
			}
			now := s.options.Clock.Now().UTC()
			closed := *keys.Seal
			if closed.IsOpen(now) {
				closed.Until = now
			}
			keys.Seal = &closed
			return fmt.Sprintf("The sealed images of infra-env %s were closed. No machine can fetch their config.",
				conv.Value(env.Name)), nil
		}); err != nil {
		return nil, err
	}
	return s.Sealed(infraEnvID)
}

// Unseal ends the sealing of an infra-env's images: later images contain the config. Images that
// are not sealed are not an error.
func (s *Service) Unseal(ctx context.Context, infraEnvID string) (*Sealed, error) {
	row, err := record.ReadInfraEnv(s.options.DB, infraEnvID)
	if err != nil {
		return nil, err
	}
	if row.AgentKeys.Seal == nil {
		return s.Sealed(infraEnvID)
	}
	if err := s.options.Engine.ChangeAgentKeys(ctx, infraEnvID,
		func(env *models.InfraEnv, keys *machine.Keys) (string, error) {
			keys.Seal = nil
			return "The images of infra-env " + conv.Value(env.Name) + " are no longer sealed; download them again.",
				nil
		}); err != nil {
		return nil, err
	}
	return s.Sealed(infraEnvID)
}

// Sealed describes the sealed images of an infra-env.
func (s *Service) Sealed(infraEnvID string) (*Sealed, error) {
	var described *Sealed
	err := s.options.DB.View(func(tx *store.Tx) error {
		row, err := record.InfraEnvs.Get(tx, infraEnvID)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no infra-env %s.", infraEnvID)
		}
		if err != nil {
			return err
		}
		described = &Sealed{InfraEnvID: infraEnvID, Name: conv.Value(row.API.Name), Fetches: []Fetch{}}
		seal := row.AgentKeys.Seal
		if seal != nil {
			described.Sealed, described.Open = true, seal.IsOpen(s.options.Clock.Now())
			described.Opened, described.Until, described.Machines = &seal.Opened, &seal.Until, seal.Machines
		}
		return fetches.Each(tx, infraEnvID+"/", func(key string, f *fetch) error {
			described.Fetches = append(described.Fetches, Fetch{Address: key[len(infraEnvID)+1:], First: f.First,
				Last: f.Last, Times: f.Times, Counts: seal != nil && f.Opened.Equal(seal.Opened)})
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(described.Fetches, func(a, b Fetch) int { return b.Last.Compare(a.Last) })
	return described, nil
}

// FetchRequest is a request of a machine for the config of its sealed image.
type FetchRequest struct {
	Token      string
	InfraEnvID string
	Address    string // of the machine, without a port
}

// fetchOperation is the operation of a fetch, in events and logs.
const fetchOperation = "fetchSealedConfig"

// FetchConfig returns the discovery config for a machine that booted a sealed image. The same
// address may fetch it again until the image is closed, because a machine may start again. Before
// FetchConfig returns, the fetch is stored.
//
// Its errors are [*machine.Refusal], which are temporary where a person can admit the machine:
// Ignition repeats its request after 503 and stops after 401. Other errors are those of the engine
// and of the store.
func (s *Service) FetchConfig(ctx context.Context, r FetchRequest) ([]byte, error) {
	config, err := s.fetchConfig(ctx, r)
	if refusal, ok := errors.AsType[*machine.Refusal](err); ok {
		s.report(ctx, Request{Operation: fetchOperation, InfraEnv: r.InfraEnvID, Address: r.Address}, refusal)
	}
	return config, err
}

func (s *Service) fetchConfig(ctx context.Context, r FetchRequest) ([]byte, error) {
	if s.verifier == nil {
		return nil, fault.New(fault.Unavailable, "The appliance does not authenticate machines at present.")
	}
	infraEnvID, err := s.verifier.VerifyConfig(r.Token)
	if err != nil {
		return nil, err
	}
	if infraEnvID != r.InfraEnvID {
		return nil, fault.New(fault.Forbidden, "The token is not for infra-env %s.", r.InfraEnvID)
	}
	recipe, err := s.options.Engine.Recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	var repeated bool
	if err := s.options.DB.Update(ctx, func(tx *store.Tx) error {
		repeated, err = s.admit(tx, r)
		return err
	}); err != nil {
		return nil, err
	}
	if repeated {
		return recipe.Ignition, nil
	}
	return recipe.Ignition, s.reportFetch(ctx, r, recipe.Name)
}

// admit stores a fetch, or returns the reason why the machine may not fetch the config. repeated is
// true for an address that fetched it a short time ago.
func (s *Service) admit(tx *store.Tx, r FetchRequest) (repeated bool, err error) {
	row, err := record.InfraEnvs.Get(tx, r.InfraEnvID)
	if errors.Is(err, store.ErrNotFound) {
		return false, fault.New(fault.Unavailable, "There is no infra-env %s.", r.InfraEnvID)
	}
	if err != nil {
		return false, err
	}
	seal, now := row.AgentKeys.Seal, s.options.Clock.Now().UTC()
	refuse := func(format string, args ...any) error {
		return &machine.Refusal{Temporary: seal != nil, InfraEnvID: r.InfraEnvID, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case seal == nil:
		return false,
			refuse("It booted a sealed image, but the images of the infra-env are no longer sealed. Boot it " +
				"from the current image.")
	case now.Before(seal.Opened):
		return false,
			refuse("It asked for the config of the sealed image, which was opened at %s, but the clock of the "+
				"appliance shows %s. Set the clock, or open the image again.", seal.Opened.Format(time.RFC3339),
				now.Format(time.RFC3339))
	case !seal.IsOpen(now):
		return false,
			refuse("It asked for the config of the sealed image after its time limit, which ended at %s. Open "+
				"the image again to boot the machine.", seal.Until.Format(time.RFC3339))
	}
	key := r.InfraEnvID + "/" + r.Address
	found, err := fetches.Get(tx, key)
	if errors.Is(err, store.ErrNotFound) {
		found, err = &fetch{First: now}, nil
	}
	if err != nil {
		return false, err
	}
	if !found.Opened.Equal(seal.Opened) {
		known, err := s.countFetches(tx, r.InfraEnvID, seal.Opened)
		if err != nil {
			return false, err
		}
		if limit := seal.Machines; limit > 0 && known >= limit || known >= maxMachines {
			return false, refuse("It asked for the config of the sealed image, but the limit of machines "+
				"that fetched it is reached (%d). If you know the machine, open the image again.", known)
		}
	}
	repeated = found.Opened.Equal(seal.Opened) && now.Sub(found.Last) < repeatInterval && !now.Before(found.Last)
	next := fetch{First: found.First, Last: now, Times: found.Times + 1, Opened: seal.Opened}
	return repeated, fetches.Put(tx, key, &next)
}

// countFetches returns the number of addresses that have fetched a config since an opening. It
// counts damaged rows, so that damage does not raise the limit of machines.
func (s *Service) countFetches(tx *store.Tx, infraEnvID string, opened time.Time) (count int, err error) {
	err = fetches.Keys(tx, infraEnvID+"/", func(key string) error {
		f, err := fetches.Get(tx, key)
		if store.IsDamaged(err) || err == nil && f.Opened.Equal(opened) {
			count++
		}
		return store.SkipDamaged(err)
	})
	return count, err
}

// reportFetch writes the event about a fetch.
func (s *Service) reportFetch(ctx context.Context, r FetchRequest, name string) error {
	id, severity := strfmt.UUID(r.InfraEnvID), models.EventSeverityInfo
	message := fmt.Sprintf("A machine at %s fetched the config of the sealed image of infra-env %s.", r.Address, name)
	return s.options.Engine.ReportEvent(ctx, &models.Event{Name: event.ConfigFetched, InfraEnvID: &id,
		Severity: &severity, Message: &message, EventTime: new(strfmt.DateTime)})
}

// removeFetches removes the fetches of a deleted infra-env, or of all deleted ones for "".
func (s *Service) removeFetches(ctx context.Context, infraEnvID string) {
	prefix, keys := "", []string(nil)
	if infraEnvID != "" {
		prefix = infraEnvID + "/"
	}
	err := s.options.DB.View(func(tx *store.Tx) error {
		return fetches.Keys(tx, prefix, func(key string) error {
			if id, _, _ := strings.Cut(key, "/"); !record.InfraEnvs.Exists(tx, id) {
				keys = append(keys, key)
			}
			return nil
		})
	})
	if err == nil && len(keys) > 0 {
		err = s.options.DB.Update(ctx, func(tx *store.Tx) error {
			var errs []error
			for _, key := range keys {
				errs = append(errs, fetches.Delete(tx, key))
			}
			return errors.Join(errs...)
		})
	}
	if err != nil && ctx.Err() == nil {
		s.options.Logger.WarnContext(ctx, "The fetches of a deleted infra-env could not be removed.", "error", err)
	}
}
