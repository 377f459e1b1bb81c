package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"landfall/store"
)

const (
	pollEvery         = time.Minute
	pollDetachedEvery = 10 * time.Minute
	firstBackoff      = 10 * time.Second
	longestBackoff    = 5 * time.Minute
	// agentPatience is how long an agent may take to register after its server was switched on,
	// until that is called an error.
	agentPatience = 30 * time.Minute
	// wrongClock is by how much the clock of a BMC may be off until that is said.
	wrongClock = 24 * time.Hour
	// lettingGo is how often the removal of a server is tried whose BMC does not answer.
	lettingGo = 3
)

// worker brings about what is wanted of one server, one thing after the other.
type worker struct {
	m      *Manager
	id     string
	wake   chan struct{}
	looked time.Time // when the BMC was spoken to last

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of what is being done
}

var errSuperseded = errors.New("something else is wanted now")

// interrupt has a worker look anew at what is wanted, and break off what it does.
func (m *Manager) interrupt(id string) {
	m.mu.Lock()
	w := m.workers[id]
	m.mu.Unlock()
	if w != nil {
		w.interrupt()
	}
}

func (w *worker) interrupt() {
	w.mu.Lock()
	if w.cancel != nil {
		w.cancel(errSuperseded)
	}
	w.mu.Unlock()
	w.rouse()
}

func (w *worker) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run works until the context ends or the server is gone.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait, gone := w.turn(ctx)
		if gone {
			return
		}
		timer := w.m.clock.NewTimer(max(0, wait))
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer.Chan():
		}
		timer.Stop()
	}
}

// turn does what is due, and returns how long nothing is.
func (w *worker) turn(ctx context.Context) (wait time.Duration, gone bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.mu.Lock()
	w.cancel = cancel
	w.mu.Unlock()
	r, err := w.m.load(w.id)
	if _, missing := errors.AsType[*NotFoundError](err); missing {
		return 0, true
	}
	if err != nil {
		w.m.log.Error("A server's row can't be read.", "server", w.id, "error", err)
		return pollEvery, false
	}
	what, at := r.next(w.looked)
	if now := w.m.now(); at.After(now) {
		return at.Sub(now), false
	}
	done := w.do(ctx, r, what)
	if done != nil && ctx.Err() == nil && !errors.Is(done, errSuperseded) {
		w.m.log.Warn("A server's BMC was in the way.", "server", r.Name, "job", string(what), "error",
			redact(done.Error(), ""))
	}
	return 0, false
}

// job is what a worker does in one conversation.
type job string

const (
	jobRegister    job = "register"
	jobPoll        job = "poll"
	jobBoot        job = "boot"
	jobPower       job = "power"
	jobEject       job = "eject"
	jobRepair      job = "repair"
	jobDeprovision job = "deprovision"
	jobForget      job = "forget"
	jobOverdue     job = "overdue" // without a conversation
)

// next is what is to be done with a server, and when.
func (r *row) next(looked time.Time) (job, time.Time) {
	retry := time.Time{}
	if r.Error != nil {
		retry = r.Error.RetryAt
	}
	owned := r.Owner != ""
	switch {
	case r.State == Deleting:
		return jobForget, retry
	case r.System == nil, !r.CredentialsGood, r.ordered(OrderInspect):
		return jobRegister, retry
	case r.Detached:
		return jobPoll, later(retry, looked.Add(pollDetachedEvery))
	case r.ordered(OrderBoot), owned && r.Boot && !r.bootedAsWanted() && (r.Online == nil || *r.Online):
		return jobBoot, retry
	case r.ordered(OrderEject):
		return jobEject, retry
	case r.Pending != nil:
		return jobPower, retry
	case owned && !r.Boot && (r.Booted != nil || r.Step != ""):
		return jobDeprovision, retry
	case r.Repair:
		return jobRepair, retry
	case r.Online != nil && *r.Online && r.Power == PowerOff, r.Online != nil && !*r.Online && r.Power != PowerOff:
		return jobPower, retry
	}
	what, at := jobPoll, later(retry, looked.Add(pollEvery))
	if !r.EjectAt.IsZero() {
		if due := later(retry, r.EjectAt); due.Before(at) {
			what, at = jobEject, due
		}
	}
	if r.Booted != nil && r.Booted.Host == nil && r.Error == nil && r.known() {
		if due := r.Booted.At.Add(agentPatience); due.Before(at) {
			what, at = jobOverdue, due
		}
	}
	return what, at
}

func (r *row) ordered(kind OrderKind) bool { return r.Pending != nil && r.Pending.Kind == kind }

// known tells whether a host could be found to be this server.
func (r *row) known() bool {
	return r.BootMAC != "" || r.System != nil && (len(r.System.MACs) > 0 || r.System.SerialNumber != "")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (m *Manager) load(id string) (*row, error) {
	var r *row
	err := m.options.DB.View(func(tx *store.Tx) (err error) {
		r, err = serverRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return &NotFoundError{id}
		}
		return err
	})
	return r, err
}

// alter changes a server's row, unless something else is wanted of it by now.
func (w *worker) alter(ctx context.Context, wish uint64, change func(*row, time.Time)) error {
	return w.m.options.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, w.id)
		if errors.Is(err, store.ErrNotFound) || err == nil && r.Wish != wish {
			return errSuperseded
		}
		if err != nil {
			return err
		}
		change(r, w.m.now())
		return serverRows.Put(tx, w.id, r)
	})
}

// do has the conversation that a job takes, and writes down what came of it.
func (w *worker) do(ctx context.Context, r *row, what job) error {
	if what == jobOverdue {
		return w.alter(ctx, r.Wish, func(r *row, now time.Time) {
			r.Error = &Trouble{Type: ProvisioningError, Count: 1, Since: now, Message: fmt.Sprintf(
				"The server %s was switched on with the image %s ago, and no agent has registered; look at its "+
					"console whether it booted the image, and whether it reaches the appliance.", r.Name,
				agentPatience)}
			r.note(now, true, "ProvisioningError", "%s", r.Error.Message)
		})
	}
	if what == jobForget && (r.Detached || r.System == nil || r.Error != nil && r.Error.Count > lettingGo) {
		return w.remove(ctx)
	}
	defer func() { w.looked = w.m.now() }()
	release, err := w.m.enter(ctx, r.Address)
	if err != nil {
		return err
	}
	defer release()
	s, err := w.session(r, what)
	if err != nil {
		return w.failed(ctx, r, what, err, nil)
	}
	out := &outcome{}
	err = w.converse(ctx, s, r, what, out)
	s.logout(ctx)
	if keepErr := w.keep(ctx, s, what, err); keepErr != nil {
		w.m.log.Error("A conversation with a BMC can't be kept.", "server", r.Name, "error", keepErr)
	}
	if err != nil {
		return w.failed(ctx, r, what, err, out)
	}
	if what == jobForget {
		return w.remove(ctx)
	}
	return w.succeeded(ctx, r, what, out)
}

// outcome is what a conversation found out.
type outcome struct {
	system *System
	power  Power
	media  *Media // what the drives hold; nil if that was not looked at
	image  string
	notes  []Note
}

// session prepares a conversation.
func (w *worker) session(r *row, what job) (*session, error) {
	address, err := ParseAddress(r.Address)
	if err != nil {
		return nil, &Error{Type: RegistrationError, Message: err.Error()}
	}
	password, err := w.m.options.Secrets.Open(r.Password)
	if err != nil {
		return nil, &Error{Type: RegistrationError, Err: err,
			Message: fmt.Sprintf("The password for the BMC of %s can't be read: %s.", r.Name, err)}
	}
	base, err := transport(r.SkipVerify, r.CA)
	if err != nil {
		return nil, err
	}
	tape := newTape(base, w.m.clock, password, string(what), w.m.now())
	tape.answered = func(http.Header) { w.m.saw(w.id) }
	return &session{
		name: r.Name, address: address, username: r.Username, password: password, clock: w.m.clock, log: w.m.log,
		tape: tape,
		http: &http.Client{Transport: tape},
	}, nil
}

// saw notes that a BMC answered.
func (m *Manager) saw(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[id] = m.now()
}

// converse logs in, finds the system, and does the job.
func (w *worker) converse(ctx context.Context, s *session, r *row, what job, out *outcome) error {
	s.note = func(warning bool, reason, format string, args ...any) {
		out.notes = append(out.notes, Note{At: w.m.now(), Reason: reason, Message: fmt.Sprintf(format, args...),
			Warning: warning})
	}
	kind := RegistrationError
	if r.Booted != nil {
		kind = ProvisionedRegistrationError
	}
	if err := s.login(ctx); err != nil {
		return s.explain(kind, "log in", err)
	}
	if err := s.find(ctx); err != nil {
		return s.explain(kind, "find the system", err)
	}
	out.power = powerOf(s.system.object)
	switch what {
	case jobRegister:
		return w.register(ctx, s, out)
	case jobPoll:
		return w.look(ctx, s, out)
	case jobBoot:
		return w.boot(ctx, s, r, out)
	case jobPower:
		return w.switchPower(ctx, s, r, out)
	case jobEject:
		return w.emptied(out, s.takeOut(ctx))
	case jobRepair:
		err := s.intoDisk(ctx)
		out.power = powerOf(s.system.object)
		return w.emptied(out, err)
	case jobDeprovision, jobForget:
		return w.release(ctx, s, r, what, out)
	}
	return nil
}

func (w *worker) emptied(out *outcome, err error) error {
	if err == nil {
		out.media = &Media{}
	}
	return err
}

func (w *worker) register(ctx context.Context, s *session, out *outcome) error {
	described, err := s.describe(ctx)
	if err != nil {
		return s.explain(RegistrationError, "describe the server", err)
	}
	out.system = described
	if s.address.NetworkBoot {
		s.note(true, "VirtualMediaUsed",
			"The address %s: means booting over the network, which needs a network of its own for it; virtual media "+
				"is used in its place.", s.address.Scheme)
	}
	if at, err := http.ParseTime(s.tape.last.header.Get("Date")); err == nil && w.m.now().Sub(at).Abs() > wrongClock {
		s.note(true, "ClockWrong", "The BMC's clock says %s; set it, or the BMC may take certificates for expired.",
			at.Format(time.RFC3339))
	}
	return w.look(ctx, s, out)
}

// look reads what is in the drives; the power is known already.
func (w *worker) look(ctx context.Context, s *session, out *outcome) error {
	slots, err := s.slots(ctx)
	if err != nil {
		return s.explain(RegistrationError, "list its virtual drives", err)
	}
	out.media = &Media{}
	for _, slot := range slots {
		if inserted(slot.object) {
			out.media = &Media{Slot: slot.path, Inserted: true, Image: orText(slot.text("Image"),
				slot.text("ImageName"))}
			break
		}
	}
	return nil
}

// boot has the image found, and the sequence run with each step written down before it is begun.
func (w *worker) boot(ctx context.Context, s *session, r *row, out *outcome) error {
	image := r.ImageURL
	if image == "" {
		reader := s.address.URL
		if s.address.HTTPBoot {
			reader = "" // the server's firmware
		}
		var err error
		if image, err = w.m.options.Site.ImageURL(ctx, r.InfraEnvID, reader); err != nil {
			return &Error{Type: ProvisioningError, Err: err,
				Message: fmt.Sprintf("There is no image for the server %s: %s", r.Name, err)}
		}
	}
	if err := CheckImageURL(image); err != nil {
		return &Error{Type: ProvisioningError, Err: err, Message: err.Error()}
	}
	s.image, out.image = image, image
	from := r.Step
	if r.Image != image {
		from = ""
	}
	media, err := s.boot(ctx, r.BootMode, from, func(next step) error {
		return w.alter(ctx, r.Wish, func(r *row, now time.Time) {
			if r.Step == "" || r.State != Provisioning {
				r.Operations.Provision = Span{Start: now}
				r.note(now, false, "ProvisioningStarted", "Image provisioning started for %s", redact(image, ""))
			}
			r.Step, r.Image, r.State = next, image, Provisioning
			r.Booted, r.EjectAt, r.Repair = nil, time.Time{}, false
		})
	})
	out.power, out.media = powerOf(s.system.object), media
	return err
}

// switchPower does what was ordered of the power, or else brings it to where it shall be.
func (w *worker) switchPower(ctx context.Context, s *session, r *row, out *outcome) error {
	kind := OrderPowerOn
	switch {
	case r.Pending != nil:
		kind = r.Pending.Kind
	case !*r.Online:
		kind = OrderSoftOff
	}
	doing, act := "switch the server on", s.powerOn
	switch kind {
	case OrderPowerOff:
		doing, act = "switch the server off", s.powerOff
	case OrderSoftOff:
		doing, act = "shut the server down", s.softOff
	case OrderReset:
		doing, act = "restart the server", s.restart
	}
	err := act(ctx)
	out.power = powerOf(s.system.object)
	if err != nil {
		return s.explain(PowerManagementError, doing, err)
	}
	switch kind {
	case OrderPowerOn:
		s.note(false, "PowerOn", "Host powered on")
	case OrderReset:
		s.note(false, "PowerReset", "Host restarted")
	default:
		s.note(false, "PowerOff", "Host powered off")
	}
	return nil
}

// release ejects the image and switches the server off.
func (w *worker) release(ctx context.Context, s *session, r *row, what job, out *outcome) error {
	if what == jobDeprovision {
		if err := w.alter(ctx, r.Wish, func(r *row, now time.Time) {
			if r.State != Deprovisioning {
				r.State, r.Operations.Deprovision = Deprovisioning, Span{Start: now}
				r.note(now, false, "DeprovisioningStarted", "Image deprovisioning started")
			}
		}); err != nil {
			return err
		}
	}
	if what == jobDeprovision || r.PowerOff {
		if err := s.powerOff(ctx); err != nil {
			return s.explain(PowerManagementError, "switch the server off", err)
		}
	}
	out.power = powerOf(s.system.object)
	if r.Booted == nil && r.Step == "" {
		return nil // what is in its drives is not ours
	}
	return w.emptied(out, s.takeOut(ctx))
}
