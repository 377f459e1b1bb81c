package bmc

import (
	"context"
	"errors"
	"fmt"

	"landfall/store"
)

// Boot boots a server now from the image of an infra-env ("" is the one that it has), also if it
// was booted from it before. From then on the server is wanted to boot from it.
func (m *Manager) Boot(ctx context.Context, id, infraEnvID string) (*Server, error) {
	return m.order(ctx, id, OrderBoot, func(r *row) error {
		if infraEnvID != "" {
			r.InfraEnvID, r.ImageURL = infraEnvID, ""
		}
		if r.InfraEnvID == "" && r.ImageURL == "" {
			return &RequestError{"infra_env_id",
				fmt.Sprintf("It is not said from what the server %s shall boot; name an infra-env.", r.Name)}
		}
		if r.Online != nil && !*r.Online {
			return &ConflictError{fmt.Sprintf("The server %s is wanted to be off by its %s; have that changed before "+
				"you boot it.", r.Name, r.Owner)}
		}
		r.Desired.Boot, r.Booted, r.Step = true, nil, ""
		return nil
	})
}

// Order has something done to a server once: its power changed, its media ejected, its BMC asked
// anew. Orders that contradict what the server's owner wants are a *ConflictError. A newer order
// takes the place of one that is not done.
func (m *Manager) Order(ctx context.Context, id string, kind OrderKind) (*Server, error) {
	switch kind {
	case OrderBoot:
		return m.Boot(ctx, id, "")
	case OrderPowerOn, OrderPowerOff, OrderSoftOff, OrderReset, OrderEject, OrderInspect:
	default:
		return nil, &RequestError{"action",
			fmt.Sprintf("There is no order %q for a server; it is %s, %s, %s, %s, %s, %s or %s.",
				kind, OrderBoot, OrderPowerOn, OrderPowerOff, OrderSoftOff, OrderReset, OrderEject, OrderInspect)}
	}
	return m.order(ctx, id, kind, func(r *row) error {
		off := kind == OrderPowerOff || kind == OrderSoftOff
		if r.Online != nil && (off && *r.Online || kind == OrderPowerOn && !*r.Online) {
			return &ConflictError{fmt.Sprintf("The power of the server %s is decided by its %s; change it there.",
				r.Name, r.Owner)}
		}
		return nil
	})
}

func (m *Manager) order(ctx context.Context, id string, kind OrderKind, alter func(*row) error) (*Server, error) {
	var shown *Server
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return &NotFoundError{id}
		case err != nil:
			return err
		case r.State == Deleting:
			return &ConflictError{fmt.Sprintf("The server %s is being removed.", r.Name)}
		case r.Detached && kind != OrderInspect:
			return &ConflictError{fmt.Sprintf("The server %s is detached: its power and media are left alone until "+
				"it is attached again.", r.Name)}
		}
		if err := alter(r); err != nil {
			return err
		}
		now := m.now()
		if r.State == Provisioning && kind != OrderBoot && kind != OrderInspect {
			r.State = Available
			r.note(now, true, "ProvisioningBroken", "The boot from the image was broken off by the order %q.", kind)
		}
		r.Pending = &Order{Kind: kind, At: now}
		if r.Error != nil {
			r.Error.RetryAt = now
		}
		r.Wish++
		shown = m.withSeen(r.shown())
		return serverRows.Put(tx, id, r)
	})
	if err != nil {
		return nil, err
	}
	m.interrupt(id)
	return shown, nil
}
