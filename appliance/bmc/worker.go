package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"landfall/appliance/tracing"
	"landfall/store"
)

const (
	pollInterval         = time.Minute
	detachedPollInterval = 10 * time.Minute
	minBackoff           = 10 * time.Second
	maxBackoff           = 5 * time.Minute
	maxRejectedDelay     = time.Hour // see rejectedDelays
	// agentTimeout limits the time from the power-on of a server to the registration of its agent.
	// When it expires, the server gets an error.
	agentTimeout = 30 * time.Minute
	// actionTimeout limits the time from the order of a power action to its last attempt: a server
	// may have another use when its BMC can be reached again days later. A boot is a part of the
	// desired state and has no limit, but is no longer forced then.
	actionTimeout = time.Hour
	// maxClockSkew is the deviation of a BMC's clock above which an event is added.
	maxClockSkew = 24 * time.Hour
	// removeAttempts limits the attempts to remove a server whose BMC does not respond.
	removeAttempts = 3
)

// worker reconciles one server with its desired state, one job at a time.
type worker struct {
	m           *Manager
	id          string
	wake        chan struct{}
	lastSession time.Time // end of the last session
	// unsaved stores the outcome of the last job. It is set if the store failed, because the job
	// must not change the server a second time.
	unsaved func() error

	mu         sync.Mutex
	cancel     context.CancelCauseFunc // cancels the current job
	generation uint64                  // of the current job's row; 0 while the row is being read
	wanted     uint64                  // the newest generation
}

var errSuperseded = errors.New("the desired state has changed")

// interrupt cancels the current job of a server if the job uses an older generation of the desired
// state. The worker then reads the desired state again.
func (m *Manager) interrupt(id string, generation uint64) {
	m.mu.Lock()
	w := m.workers[id]
	m.mu.Unlock()
	if w != nil {
		w.interrupt(generation)
	}
}

func (w *worker) interrupt(generation uint64) {
	w.mu.Lock()
	w.wanted = generation // a server that is added again begins with a lower one
	w.cancelOlder()
	w.mu.Unlock()
	w.wakeUp()
}

// use declares which generation the current job uses; 0 before it has read one.
func (w *worker) use(generation uint64, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	w.generation, w.cancel = generation, cancel
	w.cancelOlder()
	w.mu.Unlock()
}

// cancelOlder cancels a job with an older generation than the newest. w.mu must be held.
func (w *worker) cancelOlder() {
	if w.generation != 0 && w.generation < w.wanted {
		w.cancel(errSuperseded)
	}
}

func (w *worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run runs jobs until the context ends or the server is deleted.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait, gone := w.runNext(ctx)
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

// runNext runs the next job if it is due. It returns the time until the next job.
func (w *worker) runNext(ctx context.Context) (wait time.Duration, gone bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.use(0, cancel)
	if w.unsaved != nil {
		if err := w.save(w.unsaved); w.unsaved != nil {
			return w.saveLater(err), false
		}
	}
	r, first, err := w.m.loadWithController(w.id)
	if err == nil {
		w.use(r.Generation, cancel)
	}
	if _, missing := errors.AsType[*NotFoundError](err); missing {
		return 0, true
	}
	w.lastSession = earlier(w.lastSession, w.m.now())
	if err == nil && r.limitTimes(w.m.now()) {
		err = w.updateRow(ctx, r.Generation, func(r *row, now time.Time) { r.limitTimes(now) })
		if errors.Is(err, errSuperseded) {
			return 0, false
		}
	}
	if err == nil && r.actionExpired(w.m.now()) {
		if err = w.updateRow(ctx, r.Generation, (*row).dropAction); err == nil || errors.Is(err, errSuperseded) {
			return 0, false
		}
	}
	if err == nil && (first.ID != r.ID || r.DuplicateOf != "") {
		wait, err = w.yield(ctx, r, first)
		if err == nil || errors.Is(err, errSuperseded) {
			return wait, false
		}
	}
	if err != nil {
		w.m.log.Error("The server's row could not be read or written.", "server", w.id, "error", err)
		return pollInterval, false
	}
	j, at := r.nextJob(w.lastSession)
	if now := w.m.now(); at.After(now) {
		return at.Sub(now), false
	}
	ctx, span := tracing.Start(ctx, "bmc "+string(j), attribute.String("landfall.server", r.Name))
	done := w.runJob(ctx, r, j)
	if done != nil {
		span.SetStatus(codes.Error, redact(done.Error(), ""))
	}
	span.End()
	if w.unsaved != nil {
		return w.saveLater(done), false
	}
	if done != nil && ctx.Err() == nil && !errors.Is(done, errSuperseded) {
		w.m.log.Warn("A job on a server failed.", "server", r.Name, "job", string(j), "error",
			redact(done.Error(), ""))
	}
	return 0, false
}

// save stores the outcome of a job. If the store fails, it keeps the outcome in unsaved.
func (w *worker) save(write func() error) error {
	w.unsaved = nil
	err := write()
	if err != nil && !errors.Is(err, errSuperseded) {
		w.unsaved = write
	}
	return err
}

// saveLater logs that the outcome of a job is not stored. It returns the wait before the next
// attempt.
func (w *worker) saveLater(err error) time.Duration {
	w.m.log.Error("The outcome of a job on a server could not be stored. Landfall tries again.", "server", w.id,
		"error", redact(err.Error(), ""), "wait", minBackoff)
	return minBackoff
}

// yield leaves the machine of a server to the server that controls it, or notes that the server
// controls it again. It returns the time until the next look at the servers.
func (w *worker) yield(ctx context.Context, r, first *row) (time.Duration, error) {
	switch {
	case first.ID == r.ID:
		return 0, w.updateRow(ctx, r.Generation, func(r *row, now time.Time) {
			r.DuplicateOf = ""
			if !r.PasswordRemoved {
				r.Error = nil
			}
			r.addEvent(now, false, "MachineControlled", "The server controls its machine again.")
		})
	case r.State == Deleting:
		return 0, w.remove(ctx, r.Generation) // neither its image nor its power belongs to this server
	case r.DuplicateOf == first.Name:
		return pollInterval, nil
	}
	shared := r.machine().shared(first.machine())
	return pollInterval, w.updateRow(ctx, r.Generation, func(r *row, now time.Time) {
		r.DuplicateOf = first.Name
		r.Error = &ErrorStatus{Type: RegistrationError, Count: 1, Since: now, Message: fmt.Sprintf(
			"The server %s is the same machine as the server %s, which controls it: both have %s. Remove one of "+
				"them, or correct its address.", r.Name, first.Name, shared)}
		r.addEvent(now, true, "RegistrationError", "%s", r.Error.Message)
	})
}

// job is the work of one session.
type job string

const (
	jobRegister    job = "register"
	jobPoll        job = "poll"
	jobBoot        job = "boot"
	jobPower       job = "power"
	jobEject       job = "eject"
	jobRepair      job = "repair"
	jobDeprovision job = "deprovision"
	jobRemove      job = "forget"
	jobOverdue     job = "overdue" // runs without a session
)

// nextJob returns the next job of a server and its time.
func (r *row) nextJob(lastSession time.Time) (job, time.Time) {
	retry := time.Time{}
	if r.Error != nil {
		retry = r.Error.RetryAt
	}
	owned := r.Owner != ""
	switch {
	case r.State == Deleting:
		return jobRemove, retry
	case r.PasswordRemoved:
		return jobRegister, never()
	case r.System == nil, !r.CredentialsGood, r.Inspect, r.pending(ActionInspect):
		return jobRegister, retry
	case r.Detached:
		return jobPoll, later(retry, lastSession.Add(detachedPollInterval))
	case r.pending(ActionBoot), owned && r.Boot && !r.bootedDesiredImage() && (r.Online == nil || *r.Online):
		return jobBoot, retry
	case r.pending(ActionEject):
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
	j, at := jobPoll, later(retry, lastSession.Add(pollInterval))
	if !r.EjectAt.IsZero() {
		if due := later(retry, r.EjectAt); due.Before(at) {
			j, at = jobEject, due
		}
	}
	if r.Booted != nil && r.Booted.Host == nil && r.Error == nil && r.identifiable() {
		if due := r.Booted.At.Add(agentTimeout); due.Before(at) {
			j, at = jobOverdue, due
		}
	}
	return j, at
}

// limitTimes limits the times of the row to the longest waits from now, and reports whether one was
// later: the work of the server would wait for the old time after the clock was set back. A host
// that registers would count as one that registered before the boot.
func (r *row) limitTimes(now time.Time) (changed bool) {
	limit := func(at *time.Time, wait time.Duration) {
		if latest := now.Add(wait); at.After(latest) {
			*at, changed = latest, true
		}
	}
	limit(&r.EjectAt, failedEjectDelay)
	if r.Error != nil {
		longest := maxBackoff
		if r.Rejections > 0 {
			longest = maxRejectedDelay
		}
		limit(&r.Error.RetryAt, longest)
	}
	if r.Pending != nil {
		limit(&r.Pending.At, 0)
	}
	if r.Booted != nil {
		limit(&r.Booted.At, 0)
	}
	limit(&r.Operations.Provision.Start, 0)
	limit(&r.Operations.Provision.End, 0)
	return changed
}

// never returns a time that does not come.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

func (r *row) pending(kind ActionKind) bool { return r.Pending != nil && r.Pending.Kind == kind }

// identifiable reports whether a host can be matched to this server.
func (r *row) identifiable() bool {
	return r.BootMAC != "" || r.System != nil && (len(r.System.MACs) > 0 || r.System.SerialNumber != "")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
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

// loadWithController returns the row of a server and the row of the server that controls its
// machine.
func (m *Manager) loadWithController(id string) (r, first *row, err error) {
	err = m.options.DB.View(func(tx *store.Tx) error {
		if r, err = serverRows.Get(tx, id); errors.Is(err, store.ErrNotFound) {
			return &NotFoundError{id}
		}
		if err != nil {
			return err
		}
		first, err = m.controller(tx, r)
		return err
	})
	return r, first, err
}

// updateRow changes the row of a server. It does nothing if the row's generation has changed.
func (w *worker) updateRow(ctx context.Context, generation uint64, change func(*row, time.Time)) error {
	return w.m.options.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, w.id)
		if errors.Is(err, store.ErrNotFound) || err == nil && r.Generation != generation {
			return errSuperseded
		}
		if err != nil {
			return err
		}
		change(r, w.m.now())
		return serverRows.Put(tx, w.id, r)
	})
}

// runJob runs a job in one session and saves the result.
func (w *worker) runJob(ctx context.Context, r *row, j job) error {
	if j == jobOverdue {
		return w.save(func() error { return w.updateRow(ctx, r.Generation, (*row).setOverdue) })
	}
	if j == jobRemove && (r.Detached || r.System == nil || r.Error != nil && r.Error.Count > removeAttempts) {
		return w.save(func() error { return w.remove(ctx, r.Generation) })
	}
	defer func() { w.lastSession = w.m.now() }()
	release, err := w.m.acquire(ctx, r.Address)
	if err != nil {
		return w.saveFailure(ctx, r, j, err, nil)
	}
	defer release()
	s, err := w.newSession(r, j)
	if err != nil {
		return w.saveFailure(ctx, r, j, err, nil)
	}
	result := &jobResult{}
	err = w.runSession(ctx, s, r, j, result)
	result.restarting, result.uncertain = s.restarting, s.uncertain
	s.logout(ctx)
	if saveErr := w.saveRequestLog(ctx, s, j, err); saveErr != nil {
		w.m.log.Error("The request log of a BMC could not be saved.", "server", r.Name, "error", saveErr)
	}
	if err != nil {
		return w.saveFailure(ctx, r, j, err, result)
	}
	return w.save(func() error {
		if j == jobRemove {
			return w.remove(ctx, r.Generation)
		}
		return w.saveSuccess(ctx, r, j, result)
	})
}

// jobResult holds the results of a session.
type jobResult struct {
	system *System
	power  Power
	media  *Media // content of the virtual media devices; nil if not read
	image  string
	events []Event
	// See session.
	restarting, uncertain bool
}

// newSession prepares a session.
func (w *worker) newSession(r *row, j job) (*session, error) {
	address, err := ParseAddress(r.Address)
	if err != nil {
		return nil, &Error{Type: RegistrationError, Message: err.Error()}
	}
	if r.PasswordRemoved { // the server is being removed
		return nil, &Error{Type: RegistrationError, Message: fmt.Sprintf("The BMC of %s has no password.", r.Name)}
	}
	password, err := w.m.options.Secrets.Open(r.Password)
	if err != nil {
		return nil, &Error{Type: RegistrationError, Err: err,
			Message: fmt.Sprintf("The password for the BMC of %s can't be read: %s.", r.Name, err)}
	}
	base := tracing.Transport(transport(r.SkipVerify, r.CA, w.m.options.Egress))
	recorder := newRecorder(base, w.m.clock, password, string(j), w.m.now())
	recorder.onResponse = func(http.Header) { w.m.recordContact(w.id) }
	return &session{
		name: r.Name, address: address, username: r.Username, password: password, clock: w.m.clock, log: w.m.log,
		recorder: recorder,
		http:     &http.Client{Transport: recorder},
	}, nil
}

// recordContact records the time of a response.
func (m *Manager) recordContact(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contacts[id] = m.now()
}

// runSession logs in, finds the system, and runs the job.
func (w *worker) runSession(ctx context.Context, s *session, r *row, j job, result *jobResult) error {
	s.addEvent = func(warning bool, reason, format string, args ...any) {
		result.events = append(result.events, Event{At: w.m.now(), Reason: reason,
			Message: fmt.Sprintf(format, args...),
			Warning: warning})
	}
	s.restarting = r.Restarting
	if r.Pending != nil {
		s.ordered = r.Pending.At
	}
	s.noteRestart = func() error {
		err := w.updateRow(ctx, r.Generation, func(r *row, _ time.Time) { r.Restarting = true })
		if err != nil {
			err = &Error{Type: PowerManagementError, Err: err,
				Message: fmt.Sprintf("The server %s was not restarted, because Landfall could not note the restart "+
					"first: %s.", r.Name, err)}
		}
		return err
	}
	kind := RegistrationError
	if r.Booted != nil {
		kind = ProvisionedRegistrationError
	}
	if err := s.login(ctx); err != nil {
		return s.explain(kind, "log in", err)
	}
	if err := s.findSystem(ctx); err != nil {
		return s.explain(kind, "find the system", err)
	}
	s.known = true
	result.power = powerOf(s.system.object)
	switch j {
	case jobRegister:
		return w.register(ctx, s, result)
	case jobPoll:
		return w.inspectMedia(ctx, s, result)
	case jobBoot:
		return w.boot(ctx, s, r, result)
	case jobPower:
		return w.switchPower(ctx, s, r, result)
	case jobEject:
		return w.setEmptyMedia(result, s.ejectMedia(ctx))
	case jobRepair:
		err := s.restartFromDisk(ctx)
		result.power = s.lastPower()
		return w.setEmptyMedia(result, err)
	case jobDeprovision, jobRemove:
		return w.ejectAndPowerOff(ctx, s, r, j, result)
	}
	return nil
}

func (w *worker) setEmptyMedia(result *jobResult, err error) error {
	if err == nil {
		result.media = &Media{}
	}
	return err
}

func (w *worker) register(ctx context.Context, s *session, result *jobResult) error {
	described, err := s.describeSystem(ctx)
	if err != nil {
		return s.explain(RegistrationError, "describe the server", err)
	}
	result.system = described
	if s.address.NetworkBoot {
		s.addEvent(true, "VirtualMediaUsed",
			"The address %s: means network boot, which needs a provisioning network; virtual media "+
				"is used instead.", s.address.Scheme)
	}
	if at, err := http.ParseTime(s.recorder.response.header.Get("Date")); err == nil &&
		w.m.now().Sub(at).Abs() > maxClockSkew {
		s.addEvent(true, "ClockWrong",
			"The BMC's clock shows %s; set it, or the BMC may treat certificates as expired.",
			at.Format(time.DateOnly))
	}
	return w.inspectMedia(ctx, s, result)
}

// inspectMedia reads the content of the virtual media devices. The power state was read before.
func (w *worker) inspectMedia(ctx context.Context, s *session, result *jobResult) error {
	devices, err := s.virtualMedia(ctx)
	if err != nil {
		return s.explain(RegistrationError, "list its virtual media", err)
	}
	result.media = &Media{}
	for _, device := range devices {
		if inserted(device.object) {
			result.media = &Media{Device: device.path, Inserted: true, Image: firstNonEmpty(device.text("Image"),
				device.text("ImageName"))}
			break
		}
	}
	return nil
}

// boot determines the image and runs the boot sequence. It saves each step before running it. Each
// attempt that powers the server off checks its host again.
func (w *worker) boot(ctx context.Context, s *session, r *row, result *jobResult) error {
	image := r.ImageURL
	if image == "" {
		reader := s.address.URL
		if s.address.HTTPBoot {
			reader = "" // the server's firmware
		}
		var err error
		if image, err = w.m.options.Site.ImageURL(ctx, r.InfraEnvID, reader); err != nil {
			return &Error{Type: ProvisioningError, Err: err,
				Message: fmt.Sprintf("The image of the server %s is not available: %s", r.Name, err)}
		}
	}
	if err := CheckImageURL(image); err != nil {
		return &Error{Type: ProvisioningError, Err: err, Message: err.Error()}
	}
	s.image, result.image = image, image
	from := r.Step
	if r.Image != image {
		from = ""
	}
	begun := r.Step != ""
	media, err := s.boot(ctx, r.BootMode, from, func(next step) error {
		if next == stepOff && (!begun || s.lastPower() != PowerOff) && (r.Pending == nil || !r.Pending.Force) {
			if err := w.m.checkRunningHost(r); err != nil {
				return &Error{Type: ProvisioningError, Err: err, Message: err.Error()}
			}
		}
		begun = true
		var former []registration
		if next == stepOn {
			var err error
			if former, err = w.m.registrationsOf(r); err != nil {
				return &Error{Type: ProvisioningError, Err: err, Message: err.Error()}
			}
		}
		return w.updateRow(ctx, r.Generation, func(r *row, now time.Time) {
			if r.Step == "" || r.State != Provisioning {
				r.Operations.Provision = OperationMetric{Start: now}
				r.addEvent(now, false, "ProvisioningStarted", "Image provisioning started for %s", redact(image, ""))
			}
			r.Step, r.Image, r.State = next, image, Provisioning
			r.Booted, r.Former, r.EjectAt, r.Repair, r.Restarting = nil, former, time.Time{}, false, false
		})
	})
	result.power, result.media = s.lastPower(), media
	return err
}

// switchPower runs the pending power action. Without one, it sets the desired power state.
func (w *worker) switchPower(ctx context.Context, s *session, r *row, result *jobResult) error {
	kind := ActionPowerOn
	switch {
	case r.Pending != nil:
		kind = r.Pending.Kind
	case !*r.Online:
		kind = ActionShutdown
	}
	activity, run := "power on the server", s.powerOn
	switch kind {
	case ActionPowerOff:
		activity, run = "power off the server", s.powerOff
	case ActionShutdown:
		activity, run = "shut down the server", s.shutdown
	case ActionReset:
		activity, run = "restart the server", s.restart
	}
	err := run(ctx)
	result.power = s.lastPower()
	if err != nil {
		return s.explain(PowerManagementError, activity, err)
	}
	switch kind {
	case ActionPowerOn:
		s.addEvent(false, "PowerOn", "Host powered on")
	case ActionReset:
		if !s.uncertain {
			s.addEvent(false, "PowerReset", "Host restarted")
		}
	default:
		s.addEvent(false, "PowerOff", "Host powered off")
	}
	return nil
}

// ejectAndPowerOff ejects the image and powers the server off.
func (w *worker) ejectAndPowerOff(ctx context.Context, s *session, r *row, j job, result *jobResult) error {
	if j == jobDeprovision {
		if err := w.updateRow(ctx, r.Generation, func(r *row, now time.Time) {
			if r.State != Deprovisioning {
				r.State, r.Operations.Deprovision = Deprovisioning, OperationMetric{Start: now}
				r.addEvent(now, false, "DeprovisioningStarted", "Image deprovisioning started")
			}
		}); err != nil {
			return err
		}
	}
	if j == jobDeprovision || r.PowerOff {
		if err := s.powerOff(ctx); err != nil {
			return s.explain(PowerManagementError, "power off the server", err)
		}
	}
	result.power = s.lastPower()
	if r.Booted == nil && r.Step == "" {
		return nil // the manager did not insert the media in the devices
	}
	return w.setEmptyMedia(result, s.ejectMedia(ctx))
}
