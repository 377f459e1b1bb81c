package bmc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"landfall/store"
)

// learn takes up what a conversation found out, whatever came of the job.
func (r *row) learn(out *outcome, now, seen time.Time) {
	if out == nil {
		return
	}
	if out.system != nil {
		r.System = out.system
	}
	if out.power != PowerUnknown || r.Power == PowerUnknown {
		r.Power = out.power
	}
	if out.media != nil {
		out.media.Image = redact(out.media.Image, "")
		switch {
		case !out.media.Inserted:
			r.Media = nil
		case r.Media == nil || r.Media.Slot != out.media.Slot || r.Media.Image != out.media.Image:
			r.Media = &Media{Slot: out.media.Slot, Image: out.media.Image, Inserted: true, At: now}
		}
	}
	for _, note := range out.notes {
		r.note(note.At, note.Warning, note.Reason, "%s", note.Message)
	}
	r.LastSeen = later(r.LastSeen, seen)
}

// failed writes down why a job did not work, and when it is tried again.
func (w *worker) failed(ctx context.Context, r *row, what job, err error, out *outcome) error {
	if ctx.Err() != nil || errors.Is(err, errSuperseded) {
		return err // broken off, by somebody who wants something else or by the end of the appliance
	}
	told, ok := errors.AsType[*Error](err)
	if !ok {
		told = &Error{Type: RegistrationError, Message: err.Error()}
	}
	message := redact(told.Message, "")
	return errors.Join(err, w.alter(ctx, r.Wish, func(r *row, now time.Time) {
		r.learn(out, now, w.m.lastSeen(w.id))
		trouble := &Trouble{Type: told.Type, Message: message, Code: told.Code, Count: 1, Since: now}
		if before := r.Error; before != nil && before.Type == told.Type {
			trouble.Count, trouble.Since = before.Count+1, before.Since
		}
		trouble.RetryAt = now.Add(backoff(trouble.Count))
		r.Error = trouble
		if what == jobRegister && r.System == nil {
			r.Operations.Register.Start = later(r.Operations.Register.Start, now)
		}
		r.note(now, true, strings.ReplaceAll(title(string(told.Type)), " ", ""), "%s", message)
	}))
}

// title begins each word with a capital: "power management error" is the event
// PowerManagementError.
func title(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, " ")
}

// backoff is how long a server is left alone after it failed so often in a row.
func backoff(count int) time.Duration {
	return min(firstBackoff<<min(count-1, 10), longestBackoff)
}

// succeeded writes down what a job came to. A poll that found nothing new writes nothing.
func (w *worker) succeeded(ctx context.Context, r *row, what job, out *outcome) error {
	if what == jobPoll && r.Error == nil && len(out.notes) == 0 && (out.power == r.Power ||
		out.power == PowerUnknown) && sameMedia(r.Media, out.media) {
		return nil
	}
	return w.alter(ctx, r.Wish, func(r *row, now time.Time) {
		r.learn(out, now, w.m.lastSeen(w.id))
		if what != jobPoll || r.Error != nil && r.Error.Type != ProvisioningError {
			r.Error = nil
		}
		switch what {
		case jobRegister:
			r.registered(now)
		case jobBoot:
			r.booted(now, out.image)
		case jobPower:
			r.Pending = nil
		case jobEject, jobRepair:
			r.ejected(now, what == jobRepair)
		case jobDeprovision:
			r.State, r.Booted, r.Step, r.Image, r.EjectAt, r.Pending = Available, nil, "", "", time.Time{}, nil
			r.Operations.Deprovision.End = now
			r.note(now, false, "DeprovisioningComplete", "Image deprovisioning completed")
		}
	})
}

func sameMedia(known, found *Media) bool {
	if found == nil || known == nil || !found.Inserted {
		return found == nil || known == nil && !found.Inserted
	}
	return known.Slot == found.Slot && known.Image == found.Image
}

func (r *row) registered(now time.Time) {
	if !r.CredentialsGood {
		r.Operations.Register = Span{Start: r.Operations.Register.Start, End: now}
		if r.Operations.Register.Start.IsZero() {
			r.Operations.Register.Start = now
		}
		r.note(now, false, "BMCAccessValidated", "Verified access to BMC")
		r.note(now, false, "Registered", "Registered new host: %s %s, serial number %s", r.System.Manufacturer,
			r.System.Model, r.System.SerialNumber)
	}
	r.CredentialsGood = true
	if r.State == Registering {
		r.State = Available
		if r.Booted != nil {
			r.State = Provisioned
		}
	}
	if r.ordered(OrderInspect) {
		r.Pending = nil
	}
}

func (r *row) booted(now time.Time, image string) {
	r.State, r.Step, r.Image, r.EjectAt, r.Repair = Provisioned, "", "", time.Time{}, false
	r.Booted = &Booted{ImageURL: image, At: now}
	if r.ImageURL == "" {
		r.Booted.InfraEnvID = r.InfraEnvID
	}
	r.Operations.Provision.End = now
	if r.ordered(OrderBoot) {
		r.Pending = nil
	}
	r.note(now, false, "PowerOn", "Host powered on")
	r.note(now, false, "ProvisioningComplete", "Image provisioning completed for %s", redact(image, ""))
}

func (r *row) ejected(now time.Time, restarted bool) {
	r.EjectAt, r.EjectWhy = time.Time{}, ""
	if r.ordered(OrderEject) {
		r.Pending = nil
	}
	if r.Booted != nil {
		r.Booted.Ejected = now
		if restarted {
			r.Booted.Repaired = now
		}
	}
	r.Repair = false
	if restarted {
		r.note(now, true, "WrongBootOrder",
			"The server came up from the image where its disk was expected; the image was ejected, and the server "+
				"restarted into its disk.")
		return
	}
	r.note(now, false, "MediaEjected", "The image was ejected.")
}

func (m *Manager) lastSeen(id string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[id]
}

// remove forgets a server, its name and what was said with its BMC.
func (w *worker) remove(ctx context.Context) error {
	return w.m.options.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, w.id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(
			serverRows.Delete(tx, w.id),
			serverNames.Remove(tx, r.Name+"\x00"+w.id),
			conversationRows.Keys(tx, w.id+"/", func(key string) error { return conversationRows.Delete(tx, key) }),
		)
	})
}

// What is kept of the conversations of a server: so many, and in so many bytes; the newest one
// always.
const (
	keptConversations = 20
	keptBytes         = 128 << 10
)

// keep writes a conversation down. A poll that went well is only remembered until the next one, and
// the newest conversation is replaced by one that failed in the same way, so that what led to the
// failure is still there.
func (w *worker) keep(ctx context.Context, s *session, what job, err error) error {
	said := s.tape.said
	said.ID = conversationID(uint64(said.Start.UnixNano()))
	said.End = w.m.now()
	if err != nil {
		said.Outcome = redact(err.Error(), s.password)
		if errors.Is(err, context.Canceled) || errors.Is(err, errSuperseded) {
			said.Outcome = "It was broken off, because something else was wanted."
		}
	}
	w.m.mu.Lock()
	delete(w.m.polls, w.id)
	if what == jobPoll && err == nil {
		w.m.polls[w.id] = said
	}
	w.m.mu.Unlock()
	if what == jobPoll && err == nil {
		return nil
	}
	return w.m.options.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if !serverRows.Exists(tx, w.id) {
			return nil
		}
		var keys []string
		if err := conversationRows.Keys(tx, w.id+"/", func(key string) error {
			keys = append(keys, key)
			return nil
		}); err != nil {
			return err
		}
		if n := len(keys); n > 0 && said.Outcome != "" {
			newest, err := conversationRows.Get(tx, keys[n-1])
			if err != nil {
				return err
			}
			if newest.About == said.About && newest.Outcome == said.Outcome {
				said.Repeated = newest.Repeated + 1
				if err := conversationRows.Delete(tx, keys[n-1]); err != nil {
					return err
				}
			}
		}
		if n := len(keys); n > 0 {
			said.ID = max(said.ID, after(strings.TrimPrefix(keys[n-1], w.id+"/")))
		}
		if err := conversationRows.Put(tx, w.id+"/"+said.ID, &said); err != nil {
			return err
		}
		return dropConversations(tx, w.id)
	})
}

// conversationID sorts as the times do: nanoseconds since 1970.
func conversationID(nanos uint64) string { return fmt.Sprintf("%016x", nanos) }

// after is the ID that follows one that was given: conversations stay in the order in which they
// were held, and none replaces another, where the clock stands still or was set back.
func after(id string) string {
	nanos, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return id + "0"
	}
	return conversationID(nanos + 1)
}

// dropConversations removes the oldest conversations of a server that are too many.
func dropConversations(tx *store.Tx, id string) error {
	var keys []string
	sizes := map[string]int{}
	total := 0
	if err := conversationRows.Sizes(tx, id+"/", func(key string, bytes int) error {
		keys, sizes[key], total = append(keys, key), bytes, total+bytes
		return nil
	}); err != nil {
		return err
	}
	for len(keys) > 1 && (len(keys) > keptConversations || total > keptBytes) {
		if err := conversationRows.Delete(tx, keys[0]); err != nil {
			return err
		}
		total -= sizes[keys[0]]
		keys = keys[1:]
	}
	return nil
}
