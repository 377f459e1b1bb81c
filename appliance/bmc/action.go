package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"landfall/store"
)

// Boot boots a server from the image of an infra-env, even if it was booted from that image before.
// An empty id selects the infra-env that is assigned to the server. The boot becomes part of the
// desired state. Without force, it returns a *RunningHostError if the server's host is being
// installed or is installed.
func (m *Manager) Boot(ctx context.Context, id, infraEnvID string, force bool) (*Server, error) {
	if !force {
		r, err := m.load(id)
		if err == nil {
			err = m.checkRunningHost(r)
		}
		if err != nil {
			return nil, err
		}
	}
	return m.queueAction(ctx, id, Action{Kind: ActionBoot, Force: force}, func(r *row) error {
		if infraEnvID != "" {
			r.InfraEnvID, r.ImageURL = infraEnvID, ""
		}
		if r.InfraEnvID == "" && r.ImageURL == "" {
			return &RequestError{"infra_env_id",
				fmt.Sprintf("The server %s has no image to boot; name an infra-env.", r.Name)}
		}
		if r.Online != nil && !*r.Online {
			return &ConflictError{fmt.Sprintf("The %[2]s of the server %[1]s requires it to be off; change that "+
				"before "+
				"you boot it.", r.Name, r.Owner)}
		}
		r.Desired.Boot, r.Booted, r.Step, r.Repair = true, nil, "", false
		return nil
	})
}

// RequestAction queues a one-time action on a server: a change of its power, an eject, or an
// inspection of its BMC. It returns a *ConflictError if the action contradicts the desired state of
// the server's owner. A new action replaces a pending action. An inspection does not: it waits for
// the job that runs, and comes before the pending action.
func (m *Manager) RequestAction(ctx context.Context, id string, kind ActionKind) (*Server, error) {
	switch kind {
	case ActionBoot:
		return m.Boot(ctx, id, "", false)
	case ActionPowerOn, ActionPowerOff, ActionShutdown, ActionReset, ActionEject, ActionInspect:
	default:
		return nil, &RequestError{"action",
			fmt.Sprintf("There is no action %q for a server; the actions are %s, %s, %s, %s, %s, %s and %s.",
				kind, ActionBoot, ActionPowerOn, ActionPowerOff, ActionShutdown, ActionReset, ActionEject,
				ActionInspect)}
	}
	return m.queueAction(ctx, id, Action{Kind: kind}, func(r *row) error {
		off := kind == ActionPowerOff || kind == ActionShutdown
		if r.Online != nil && (off && *r.Online || kind == ActionPowerOn && !*r.Online) {
			return &ConflictError{fmt.Sprintf("The power of the server %s is controlled by its %s; change it there.",
				r.Name, r.Owner)}
		}
		return nil
	})
}

// actionExpired reports whether dropAction changes the row.
func (r *row) actionExpired(now time.Time) bool {
	if r.Pending == nil || now.Sub(r.Pending.At) < actionTimeout {
		return false
	}
	switch r.Pending.Kind {
	case ActionBoot:
		return r.Pending.Force
	case ActionPowerOn, ActionPowerOff, ActionShutdown, ActionReset:
		return true
	}
	return false
}

// dropAction drops a power action that was not done in time, or the force of a boot.
func (r *row) dropAction(now time.Time) {
	if r.Pending.Kind == ActionBoot {
		r.Pending.Force = false
		return
	}
	if r.Restarting {
		r.addEvent(now, true, "PowerReset", "%s", unknownRestart(r.Pending.At))
	} else {
		r.addEvent(now, true, "ActionExpired", "The action %q of %s was not done within an hour and is not tried "+
			"again; repeat it if it is still necessary.", r.Pending.Kind, r.Pending.At.Format(orderTime))
	}
	r.Pending, r.Restarting = nil, false
}

// orderTime is the form of the time of an order. Without the time, the history would leave out the
// message about a second order, see addEvent.
const orderTime = "2006-01-02 15:04:05 UTC"

// unknownRestart returns the message that the outcome of a restart is not known. A zero time means
// that the restart was a repair and not an order.
func unknownRestart(ordered time.Time) string {
	if ordered.IsZero() {
		return "The BMC was asked to restart the server from its disk, but the outcome is not known. The server is " +
			"not restarted a second time; check it, and restart it again if necessary."
	}
	return fmt.Sprintf("The BMC was asked to restart the server, as ordered at %s, but the outcome is not known. The "+
		"server is not restarted a second time; check it, and restart it again if necessary.",
		ordered.Format(orderTime))
}

// busy reports whether a server has an action, a boot or a repair to complete.
func (r *row) busy() bool {
	return r.Pending != nil && r.Pending.Kind != ActionInspect || r.State == Provisioning ||
		r.State == Deprovisioning || r.Repair
}

func (m *Manager) queueAction(ctx context.Context, id string, action Action,
	modify func(*row) error) (*Server, error) {
	kind := action.Kind
	var server *Server
	var generation uint64
	err := m.options.DB.Update(ctx, func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return &NotFoundError{id}
		case err != nil:
			return err
		case r.State == Deleting:
			return &ConflictError{fmt.Sprintf("The server %s is being removed.", r.Name)}
		case r.Detached && kind != ActionInspect:
			return &ConflictError{fmt.Sprintf("The server %s is detached: its power and media are not changed until "+
				"it is attached again.", r.Name)}
		}
		first, err := m.controller(tx, r)
		if err != nil {
			return err
		}
		if first.ID != id {
			return &ConflictError{fmt.Sprintf("The server %s waits, because the server %s controls the same machine; "+
				"send the action to %s, or remove one of the two.", r.Name, first.Name, first.Name)}
		}
		if err := modify(r); err != nil {
			return err
		}
		now := m.now()
		if r.State == Provisioning && kind != ActionBoot && kind != ActionInspect {
			r.State = Available
			r.addEvent(now, true, "ProvisioningBroken", "The boot from the image was canceled by the action %q.", kind)
		}
		if r.Error != nil {
			r.Error.RetryAt = now
		}
		if kind == ActionInspect && r.busy() {
			r.Inspect = true
		} else {
			action.At = now
			r.Pending = &action
			r.Restarting = r.Restarting && kind == ActionInspect
			r.Generation++
		}
		generation = r.Generation
		server = m.withLastContact(r.server(now))
		return serverRows.Put(tx, id, r)
	})
	if err != nil {
		return nil, err
	}
	m.interrupt(id, generation)
	return server, nil
}
