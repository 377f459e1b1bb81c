package notice

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/engine/event"
	"landfall/appliance/sentence"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// SecretsPurpose is the purpose with which the site's key encrypts the URLs and secrets.
const SecretsPurpose sitekey.Purpose = "webhooks"

// Options are the parts that a service needs.
type Options struct {
	DB        *store.DB
	Secrets   *sitekey.Box
	Transport http.RoundTripper       // to the webhooks
	CheckURL  func(text string) error // returns an error if the rules for outgoing requests deny a URL
	URL       string                  // of the appliance, for the links in notifications
	Timeout   time.Duration           // of a request; 0 is 15 seconds
	Sources   []Source                // of the conditions of the site
	// Started returns a channel that is closed when the first look at the conditions may begin: a
	// start has more urgent work. nil: at once.
	Started func() <-chan struct{}
	Clock   clockwork.Clock
	Logger  *slog.Logger
}

// Service keeps notifications and sends them to webhooks. Its methods are safe for concurrent use;
// Run is called once.
type Service struct{ Options }

// New returns a service.
func New(options Options) *Service { return &Service{options} }

// List returns the newest notifications, the newest one first, of the clusters that wanted selects.
// Notifications about no cluster are selected with "".
func (s *Service) List(wanted func(cluster string) bool) ([]*Notification, error) {
	list := []*Notification{}
	err := s.DB.View(func(tx *store.Tx) error {
		return notifications.EachReverse(tx, "", func(_ string, n *Notification) error {
			cluster := ""
			if n.Cluster != nil {
				cluster = n.Cluster.ID
			}
			if wanted(cluster) {
				list = append(list, n)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the notifications: %w", err)
	}
	return list, nil
}

// Run keeps and sends notifications until the context ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.follow(ctx) })
	group.Go(func() error { return s.deliver(ctx) })
	group.Go(func() error { return s.watch(ctx) })
	return group.Wait()
}

// follow makes notifications of the events. It begins after the event of the newest notification of
// an event.
func (s *Service) follow(ctx context.Context) error {
	last := ""
	if err := s.DB.View(func(tx *store.Tx) error {
		key, err := positions.Get(tx, position)
		if err == nil {
			last = *key
		}
		if !errors.Is(err, store.ErrNotFound) && !store.IsDamaged(err) {
			return err
		}
		// A database of an earlier version has notifications of events only. If the position is
		// damaged, the newest notification is near it.
		return notifications.EachReverse(tx, "", func(key string, _ *Notification) error {
			last = key
			return errStop
		})
	}); err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("read the newest notification: %w", err)
	}
	for ctx.Err() == nil {
		watcher := s.DB.Watch(ctx, s.DB.Revision(), event.Rows.Prefix())
		for more := true; more; _, more = <-watcher.C() {
			var err error
			if last, err = s.collect(ctx, last); err != nil && ctx.Err() == nil {
				s.Logger.Warn("Notifications could not be recorded.", "error", err)
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the events: %w", err)
		}
	}
	return nil
}

var errStop = errors.New("stop")

// batch is the number of events that are read in a view.
const batch = 500

// collect makes notifications of the events after a key, and returns the key of the last event. It
// leaves out damaged events. It records the position after many events without a notification, so
// that the next start does not read them again.
func (s *Service) collect(ctx context.Context, last string) (string, error) {
	for unrecorded := 0; ; {
		var found []*Notification
		read, key := 0, last
		if err := s.DB.View(func(tx *store.Tx) error {
			var keys []string
			if err := event.Rows.KeysAfter(tx, last, func(key string) error {
				keys = append(keys, key)
				if len(keys) == batch {
					return errStop
				}
				return nil
			}); err != nil && !errors.Is(err, errStop) {
				return err
			}
			for _, next := range keys {
				key = next
				ev, err := event.Rows.Get(tx, next)
				if store.IsDamaged(err) {
					continue
				}
				if err != nil {
					return err
				}
				n, err := newNotification(tx, next, ev, s.URL)
				if err != nil {
					return err
				}
				if n != nil {
					found = append(found, n)
				}
			}
			read = len(keys)
			return nil
		}); err != nil {
			return last, fmt.Errorf("read the events: %w", err)
		}
		unrecorded += read
		if len(found) > 0 || read < batch && unrecorded >= batch {
			if err := s.record(ctx, found, key); err != nil {
				return last, err
			}
			unrecorded = 0
		}
		last = key
		if read < batch {
			return last, nil
		}
	}
}

// record stores the notifications of events, and the position after the last event that was read.
func (s *Service) record(ctx context.Context, found []*Notification, read string) error {
	now := s.Clock.Now().UTC()
	if err := s.DB.Update(ctx, func(tx *store.Tx) error {
		for _, n := range found {
			if notifications.Exists(tx, n.key) {
				continue
			}
			if err := add(tx, n, now); err != nil {
				return err
			}
		}
		last, err := positionAfter(read)
		if err != nil {
			return err
		}
		if err := positions.Put(tx, position, &last); err != nil {
			return err
		}
		return prune(tx)
	}); err != nil {
		return fmt.Errorf("record notifications: %w", err)
	}
	return nil
}

// positionAfter returns a text that sorts after the key of an event, and before that of the next
// one. It has no IDs of clusters or hosts, which may be deleted.
func positionAfter(key string) (string, error) {
	id, _, err := event.ParseKey(key)
	return id.String() + "/~", err
}

// add stores a notification and its deliveries.
func add(tx *store.Tx, n *Notification, now time.Time) error {
	if err := notifications.Put(tx, n.key, n); err != nil {
		return err
	}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	var receivers []string
	if err := webhooks.Keys(tx, "", func(name string) error {
		receivers = append(receivers, name)
		return nil
	}); err != nil {
		return err
	}
	for _, name := range receivers {
		if err := deliveries.Put(tx, name+"/"+n.ID, &delivery{Body: body, First: now, Next: now}); err != nil {
			return err
		}
	}
	return nil
}

// prune removes the oldest notifications.
func prune(tx *store.Tx) error {
	var keys []string
	if err := notifications.Keys(tx, "", func(key string) error {
		keys = append(keys, key)
		return nil
	}); err != nil {
		return err
	}
	for _, key := range keys[:max(0, len(keys)-kept)] {
		if err := notifications.Delete(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// pauses are the times between the attempts of a delivery. The last one is repeated.
var pauses = [...]time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour}

// A notification is not sent any more at the age giveUp, after the number tries of attempts. These
// take some 8 hours. Without them, a clock that is set forward would drop all notifications.
const (
	giveUp = 7 * 24 * time.Hour
	tries  = 12
)

func pauseAfter(attempts int) time.Duration { return pauses[min(attempts, len(pauses))-1] }

// idle is the longest time between two looks for due deliveries: the clock may be set.
const idle = time.Hour

// item is a delivery with its key.
type item struct {
	webhook, id string
	delivery
}

func (i *item) key() string { return i.webhook + "/" + i.id }

// deliver sends deliveries when they are due.
func (s *Service) deliver(ctx context.Context) error {
	watcher := s.DB.Watch(ctx, s.DB.Revision(), deliveries.Prefix())
	for {
		next, err := s.sendDue(ctx)
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("Notifications could not be sent.", "error", err)
			next = s.Clock.Now().Add(pauses[1])
		}
		wait := idle
		if !next.IsZero() {
			wait = min(idle, max(0, next.Sub(s.Clock.Now())))
		}
		timer := s.Clock.NewTimer(wait)
		select {
		case <-timer.Chan():
		case _, more := <-watcher.C():
			if !more && ctx.Err() == nil && errors.Is(watcher.Err(), store.ErrCompacted) {
				watcher = s.DB.Watch(ctx, s.DB.Revision(), deliveries.Prefix())
			} else if !more && ctx.Err() == nil {
				return fmt.Errorf("follow the deliveries: %w", watcher.Err())
			}
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// sendDue sends the deliveries that are due, and returns when the next one is due. The webhooks are
// served at the same time, each in the order of its deliveries. A damaged webhook gets nothing. The
// deliveries of a webhook that does not exist are dropped: a repair may have removed it.
func (s *Service) sendDue(ctx context.Context) (next time.Time, err error) {
	due := make(map[string][]*item)
	receivers := make(map[string]*webhook) // nil for a damaged or missing one
	missing := make(map[string]bool)
	var lost []string
	now := s.Clock.Now()
	if err := s.DB.View(func(tx *store.Tx) error {
		return deliveries.Each(tx, "", func(key string, d *delivery) error {
			name, id, _ := strings.Cut(key, "/")
			if _, known := receivers[name]; !known {
				receiver, err := webhooks.Get(tx, name)
				missing[name] = errors.Is(err, store.ErrNotFound)
				if err != nil && !missing[name] && !store.IsDamaged(err) {
					return err
				}
				receivers[name] = receiver
			}
			switch {
			case missing[name], receivers[name] == nil && now.Sub(d.First) >= giveUp:
				lost = append(lost, key)
			case receivers[name] == nil:
			// A longer wait than any pause began before the clock was set back.
			case d.Next.After(now) && d.Next.Sub(now) <= pauses[len(pauses)-1]:
				next = earlier(next, d.Next)
			default:
				due[name] = append(due[name], &item{name, id, *d})
			}
			return nil
		})
	}); err != nil {
		return time.Time{}, fmt.Errorf("read the deliveries: %w", err)
	}
	if err := s.drop(ctx, lost); err != nil {
		return time.Time{}, err
	}
	var mu sync.Mutex
	var failures []error
	var running sync.WaitGroup
	for name, items := range due {
		running.Go(func() {
			at, err := s.sendTo(ctx, receivers[name], items)
			mu.Lock()
			defer mu.Unlock()
			next = earlier(next, at)
			failures = append(failures, err)
		})
	}
	running.Wait()
	return next, errors.Join(failures...)
}

// drop drops deliveries whose webhook can't be read.
func (s *Service) drop(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := s.DB.Update(ctx, func(tx *store.Tx) error {
		for _, key := range keys {
			if err := deliveries.Delete(tx, key); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("drop the notifications of a missing or damaged webhook: %w", err)
	}
	s.Logger.Warn("Notifications were dropped, because their webhooks are missing or damaged.", "number", len(keys))
	return nil
}

// earlier returns the earlier of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// turn is the time after which a slow receiver waits for the next look. New notifications to others
// wait for the end of the present look.
const turn = 5 * time.Second

// sendTo sends deliveries to their webhook and returns when the next attempt is due. After an
// attempt without any answer, it postpones the others, too.
func (s *Service) sendTo(ctx context.Context, receiver *webhook, items []*item) (next time.Time, err error) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.id, b.id) })
	var silent error
	var again time.Time // next attempt of a silent receiver
	attempts := 0       // number of attempts of the last delivery that was tried
	begun := s.Clock.Now()
	for _, i := range items {
		now := s.Clock.Now()
		if silent == nil && now.Sub(begun) >= turn {
			return now, nil
		}
		if i.First.After(now) { // the clock was set back
			i.First = now.UTC()
		}
		failure := silent
		if failure == nil {
			failure = s.send(ctx, receiver, i.id, i.Body)
			if ctx.Err() != nil {
				return time.Time{}, nil // the next start sends it again
			}
			i.Attempts++
			attempts = i.Attempts
		}
		gaveUp := failure != nil && attempts >= tries && s.Clock.Now().Sub(i.First) >= giveUp
		if failure != nil {
			if silent == nil {
				again = s.Clock.Now().Add(pauseAfter(i.Attempts))
			}
			if _, refused := errors.AsType[*refusal](failure); !refused {
				silent = failure
			}
			i.Next = again
			if !gaveUp {
				next = earlier(next, i.Next)
			}
		}
		if err := s.note(ctx, i, failure, gaveUp); err != nil {
			return time.Time{}, err
		}
	}
	return next, nil
}

// note records the result of an attempt.
func (s *Service) note(ctx context.Context, i *item, failure error, gaveUp bool) error {
	now := s.Clock.Now().UTC()
	err := s.DB.Update(ctx, func(tx *store.Tx) error {
		row, err := webhooks.Get(tx, i.webhook)
		if errors.Is(err, store.ErrNotFound) {
			return nil // removed
		}
		if err != nil {
			return err
		}
		changed := *row
		if failure == nil {
			changed.Delivered, changed.Problem = now, ""
		} else {
			changed.Problem = sentence.New(failure)
		}
		if err := webhooks.Put(tx, i.webhook, &changed); err != nil {
			return err
		}
		if failure == nil || gaveUp {
			return deliveries.Delete(tx, i.key())
		}
		return deliveries.Put(tx, i.key(), &i.delivery)
	})
	switch {
	case err != nil:
		return fmt.Errorf("record the result of a webhook: %w", err)
	case gaveUp:
		s.Logger.Warn("A notification was not delivered in 7 days and is dropped.", "webhook", i.webhook,
			"notification", i.id, "error", failure)
	case failure != nil:
		s.Logger.Info("A webhook did not take a notification.", "webhook", i.webhook, "notification", i.id,
			"attempt", i.Attempts, "next", i.Next, "error", failure)
	}
	return nil
}
