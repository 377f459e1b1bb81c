package agents

import (
	"context"
	"strings"
	"time"

	"landfall/appliance/access"
	"landfall/appliance/access/machine"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// absence is the time without a contact after which a host may register in another infra-env. An
// agent contacts the appliance once a minute.
const absence = 3 * time.Minute

// CheckMove returns nil if a machine may register a host in an infra-env. A host that is registered
// in another infra-env moves: a person booted it from another image. This takes longer than the
// interval of its contacts. While the host still contacts the appliance, the machine is another one
// with the same ID, and CheckMove returns a [*machine.Refusal]. The refusal is temporary, because
// an agent stops after others. People are not checked.
func (s *Service) CheckMove(ctx context.Context, identity access.Identity, infraEnvID, hostID string) error {
	if identity.Kind != access.Agent || hostID == "" {
		return nil
	}
	now, present := s.options.Clock.Now(), ""
	err := s.options.DB.View(func(tx *store.Tx) error {
		return record.HostInfraEnvs.Keys(tx, hostID+"/", func(key string) error {
			other := strings.TrimPrefix(key, hostID+"/")
			if other == infraEnvID {
				return nil
			}
			h, err := record.Hosts.Get(tx, other+"/"+hostID)
			if err != nil {
				return err
			}
			if s.isPresent(h, now) {
				present = other
				return store.ErrStop
			}
			return nil
		})
	})
	if err != nil || present == "" {
		return err
	}
	refusal := &machine.Refusal{Temporary: true, InfraEnvID: present,
		Reason: "A machine of infra-env " + infraEnvID + " registers with the ID of this host, which still runs in " +
			"infra-env " + present + ". If the host was booted from the other image, it is accepted after three " +
			"minutes. Otherwise revoke the tokens of infra-env " + infraEnvID + "."}
	s.report(ctx, Request{Operation: "v2RegisterHost", InfraEnv: present, Host: hostID, Address: identity.Address},
		refusal)
	return refusal
}

// isPresent reports whether a host contacts the appliance. After a start of the appliance, a host
// whose agent must poll is present until it had the time to do so.
func (s *Service) isPresent(h *record.Host, now time.Time) bool {
	last, ok := s.options.Engine.LastContact(record.HostKey(h))
	if since := s.options.Engine.ContactsSince(); lifecycle.ExpectsPolls(&h.API) && (!ok || since.After(last)) {
		last, ok = since, true
	}
	return ok && now.Sub(last) < absence
}
