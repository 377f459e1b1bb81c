package bmc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"landfall/store"
)

// applyResult applies the results of a session to the row, after a successful or a failed job.
func (r *row) applyResult(result *jobResult, now, seen time.Time) {
	if result == nil {
		return
	}
	if result.system != nil {
		r.System = result.system
	}
	if result.power != PowerUnknown || r.Power == PowerUnknown {
		r.Power = result.power
	}
	if result.media != nil {
		result.media.Image = redact(result.media.Image, "")
		switch {
		case !result.media.Inserted:
			r.Media = nil
		case r.Media == nil || r.Media.Device != result.media.Device || r.Media.Image != result.media.Image:
			r.Media = &Media{Device: result.media.Device, Image: result.media.Image, Inserted: true, At: now}
		}
	}
	for _, note := range result.events {
		r.addEvent(note.At, note.Warning, note.Reason, "%s", note.Message)
	}
	r.LastSeen = later(r.LastSeen, seen)
}

// saveFailure saves the error of a job and the time of the next attempt.
func (w *worker) saveFailure(ctx context.Context, r *row, j job, err error, result *jobResult) error {
	if ctx.Err() != nil || errors.Is(err, errSuperseded) {
		return err // canceled by a new desired state or by the shutdown
	}
	bmcErr, ok := errors.AsType[*Error](err)
	if !ok {
		bmcErr = &Error{Type: RegistrationError, Message: err.Error()}
	}
	message := redact(bmcErr.Message, "")
	change := func(r *row, now time.Time) {
		r.applyResult(result, now, w.m.lastContact(w.id))
		if result != nil {
			r.Restarting = result.restarting
		}
		status := &ErrorStatus{Type: bmcErr.Type, Message: message, Code: bmcErr.Code, Count: 1, Since: now}
		if before := r.Error; before != nil && before.Type == bmcErr.Type {
			status.Count, status.Since = before.Count+1, before.Since
		}
		status.RetryAt = now.Add(backoff(status.Count))
		if loginRejected(err) && j != jobRemove {
			status.RetryAt = now.Add(rejectedDelays[min(r.Rejections, len(rejectedDelays)-1)])
			r.Rejections++
		} else {
			r.Rejections = 0
		}
		r.Error = status
		if j == jobRegister && r.System == nil {
			r.Operations.Register.Start = later(r.Operations.Register.Start, now)
		}
		r.addEvent(now, true, strings.ReplaceAll(titleCase(string(bmcErr.Type)), " ", ""), "%s", message)
	}
	return errors.Join(err, w.save(func() error { return w.updateRow(ctx, r.Generation, change) }))
}

// setOverdue sets the error that no agent has registered since the boot. The agent of a server
// without MAC addresses may have registered: see otherMachine.
func (r *row) setOverdue(now time.Time) {
	message := fmt.Sprintf("The server %s was powered on with the image %d minutes ago, but no agent has registered; "+
		"check at its console whether it booted the image, and whether it reaches the appliance.", r.Name,
		minutes(agentTimeout))
	if len(r.matcher().macs) == 0 {
		message = fmt.Sprintf("The server %s was powered on with the image %d minutes ago, but no agent has "+
			"registered that is certainly its own; check at its console whether it booted the image, and whether it "+
			"reaches the appliance; give its boot MAC address if other servers have the same serial number.", r.Name,
			minutes(agentTimeout))
	}
	r.Error = &ErrorStatus{Type: ProvisioningError, Count: 1, Since: now, Message: message}
	r.addEvent(now, true, "ProvisioningError", "%s", r.Error.Message)
}

// titleCase capitalizes each word and joins the words: "power management error" becomes
// "PowerManagementError", the name of an event.
func titleCase(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, " ")
}

// backoff returns the delay after the given number of consecutive failures.
func backoff(count int) time.Duration {
	b := newBackoff(minBackoff, maxBackoff)
	for range min(count-1, 10) {
		b.Step()
	}
	return b.Step()
}

// rejectedDelays are the delays while a BMC rejects the credentials. Many BMCs lock an account, for
// everybody, after three or five attempts.
var rejectedDelays = []time.Duration{time.Minute, 15 * time.Minute, maxRejectedDelay}

// loginRejected reports whether a BMC rejected the credentials. Some BMCs answer with the same
// status if they have no free session.
func loginRejected(err error) bool {
	f, ok := asFailure(err)
	return ok && f.status == http.StatusUnauthorized && !f.sessionsFull()
}

// newBackoff returns delays that start with first and double up to limit.
func newBackoff(first, limit time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Cap: limit, Steps: math.MaxInt}
}

// saveSuccess saves the result of a job. A poll without changes writes nothing.
func (w *worker) saveSuccess(ctx context.Context, r *row, j job, result *jobResult) error {
	if j == jobPoll && r.Error == nil && len(result.events) == 0 && (result.power == r.Power ||
		result.power == PowerUnknown) && sameMedia(r.Media, result.media) {
		return nil
	}
	return w.updateRow(ctx, r.Generation, func(r *row, now time.Time) {
		r.applyResult(result, now, w.m.lastContact(w.id))
		r.Rejections = 0
		if j != jobPoll || r.Error != nil && r.Error.Type != ProvisioningError {
			r.Error = nil
		}
		switch j {
		case jobRegister:
			r.setRegistered(now)
		case jobBoot:
			r.setBooted(now, result.image)
		case jobPower:
			r.Pending, r.Restarting = nil, false
		case jobEject:
			r.setEjected(now)
			r.addEvent(now, false, "MediaEjected", "The image was ejected.")
		case jobRepair:
			r.setRepaired(now, !result.uncertain)
		case jobDeprovision:
			r.State, r.Booted, r.Step, r.Image, r.Pending = Available, nil, "", "", nil
			r.EjectAt, r.EjectReason, r.Repair, r.Restarting = time.Time{}, "", false, false
			r.Operations.Deprovision.End = now
			r.addEvent(now, false, "DeprovisioningComplete", "Image deprovisioning completed")
		}
	})
}

func sameMedia(before, found *Media) bool {
	if found == nil || before == nil || !found.Inserted {
		return found == nil || before == nil && !found.Inserted
	}
	return before.Device == found.Device && before.Image == found.Image
}

func (r *row) setRegistered(now time.Time) {
	if !r.CredentialsGood {
		r.Operations.Register = OperationMetric{Start: r.Operations.Register.Start, End: now}
		if r.Operations.Register.Start.IsZero() {
			r.Operations.Register.Start = now
		}
		r.addEvent(now, false, "BMCAccessValidated", "Verified access to BMC")
		r.addEvent(now, false, "Registered", "Registered new host: %s", r.System.Title())
	}
	r.CredentialsGood, r.Inspect = true, false
	if r.State == Registering {
		r.State = Available
		if r.Booted != nil {
			r.State = Provisioned
		}
	}
	if r.pending(ActionInspect) {
		r.Pending = nil
	}
}

func (r *row) setBooted(now time.Time, image string) {
	r.State, r.Step, r.Image, r.EjectAt, r.Repair = Provisioned, "", "", time.Time{}, false
	r.Booted = &BootStatus{ImageURL: image, At: now}
	if r.ImageURL == "" {
		r.Booted.InfraEnvID = r.InfraEnvID
	}
	r.Operations.Provision.End = now
	if r.pending(ActionBoot) {
		r.Pending = nil
	}
	r.addEvent(now, false, "PowerOn", "Host powered on")
	r.addEvent(now, false, "ProvisioningComplete", "Image provisioning completed for %s", redact(image, ""))
}

func (r *row) setEjected(now time.Time) {
	r.EjectAt, r.EjectReason, r.Repair = time.Time{}, "", false
	if r.pending(ActionEject) {
		r.Pending = nil
	}
	if r.Booted != nil {
		r.Booted.Ejected = now
	}
}

func (r *row) setRepaired(now time.Time, restarted bool) {
	r.setEjected(now)
	r.Restarting = false
	if r.Booted != nil {
		r.Booted.Repaired = now
	}
	if restarted {
		r.addEvent(now, true, "WrongBootOrder",
			"The server booted the image again instead of its disk; the image was ejected and the server "+
				"restarted from its disk.")
	}
}

func (m *Manager) lastContact(id string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contacts[id]
}

// remove deletes a server, its name and its request logs. It does nothing if the row's generation
// has changed.
func (w *worker) remove(ctx context.Context, generation uint64) error {
	return w.m.options.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, w.id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.Generation != generation {
			return errSuperseded
		}
		return errors.Join(
			serverRows.Delete(tx, w.id),
			serverNames.Remove(tx, r.Name+"\x00"+w.id),
			requestLogRows.Keys(tx, w.id+"/", func(key string) error { return requestLogRows.Delete(tx, key) }),
		)
	})
}

// Limits of the request logs of a server: their number and their total size in bytes. The newest
// log is always kept.
const (
	maxRequestLogs     = 20
	maxRequestLogBytes = 128 << 10
)

// saveRequestLog saves the log of a session. The log of a successful poll stays in memory until the
// next poll. A log with the same error as the newest log replaces it, so that older logs are not
// pushed out.
func (w *worker) saveRequestLog(ctx context.Context, s *session, j job, err error) error {
	log := s.recorder.log
	log.ID = requestLogID(uint64(log.Start.UnixNano()))
	log.End, log.Stranger = w.m.now(), !s.known
	if err != nil {
		log.Error = redact(err.Error(), s.password)
		if errors.Is(err, context.Canceled) || errors.Is(err, errSuperseded) {
			log.Error = "The session was canceled because the desired state changed."
		}
	}
	w.m.mu.Lock()
	delete(w.m.polls, w.id)
	if j == jobPoll && err == nil {
		w.m.polls[w.id] = log
	}
	w.m.mu.Unlock()
	if j == jobPoll && err == nil {
		return nil
	}
	return w.m.options.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if !serverRows.Exists(tx, w.id) {
			return nil
		}
		var keys []string
		if err := requestLogRows.Keys(tx, w.id+"/", func(key string) error {
			keys = append(keys, key)
			return nil
		}); err != nil {
			return err
		}
		if n := len(keys); n > 0 && log.Error != "" {
			newest, err := requestLogRows.Get(tx, keys[n-1])
			if store.SkipDamaged(err) != nil {
				return err
			}
			if err == nil && newest.Job == log.Job && newest.Error == log.Error {
				log.Repeated = newest.Repeated + 1
				if err := requestLogRows.Delete(tx, keys[n-1]); err != nil {
					return err
				}
			}
		}
		if n := len(keys); n > 0 {
			log.ID = max(log.ID, nextID(strings.TrimPrefix(keys[n-1], w.id+"/")))
		}
		if err := requestLogRows.Put(tx, w.id+"/"+log.ID, &log); err != nil {
			return err
		}
		return pruneRequestLogs(tx, w.id)
	})
}

// requestLogID returns an id that sorts by time: nanoseconds since 1970 in hexadecimal.
func requestLogID(nanos uint64) string { return fmt.Sprintf("%016x", nanos) }

// nextID returns the id after the given id. It keeps the logs in order if the clock stands still or
// was set back.
func nextID(id string) string {
	nanos, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return id + "0"
	}
	return requestLogID(nanos + 1)
}

// pruneRequestLogs deletes the oldest logs of a server that exceed the limits.
func pruneRequestLogs(tx *store.Tx, id string) error {
	var keys []string
	sizes := map[string]int{}
	total := 0
	if err := requestLogRows.Sizes(tx, id+"/", func(key string, bytes int) error {
		keys, sizes[key], total = append(keys, key), bytes, total+bytes
		return nil
	}); err != nil {
		return err
	}
	for len(keys) > 1 && (len(keys) > maxRequestLogs || total > maxRequestLogBytes) {
		if err := requestLogRows.Delete(tx, keys[0]); err != nil {
			return err
		}
		total -= sizes[keys[0]]
		keys = keys[1:]
	}
	return nil
}
