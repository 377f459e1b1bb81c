package spoke

import (
	"context"
	"sync"
	"time"
)

// taskTimeout is the time limit of a task.
const taskTimeout = 2 * time.Minute

// Tasks runs calls of clusters in the background, because reconcilers must not wait for a cluster
// that does not respond. The zero value is ready to use.
type Tasks struct {
	mu     sync.Mutex
	ended  bool
	tasks  map[string]*task
	cancel []context.CancelFunc
	group  sync.WaitGroup
}

type task struct {
	done   bool
	answer string
	err    error
}

// Do starts the task with a name unless the task is running, and returns its result if the task has
// finished. It returns each result once. When the task has finished, again is called; then the
// caller must call Do again.
func (t *Tasks) Do(name string, run func(context.Context) error, again func()) (done bool, err error) {
	_, done, err = t.Ask(name, func(ctx context.Context) (string, error) { return "", run(ctx) }, again)
	return done, err
}

// Ask is like Do, for a task that returns a value.
func (t *Tasks) Ask(name string, run func(context.Context) (string, error),
	again func()) (answer string, done bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return "", false, nil
	}
	if held := t.tasks[name]; held != nil {
		if !held.done {
			return "", false, nil
		}
		delete(t.tasks, name)
		return held.answer, true, held.err
	}
	if t.tasks == nil {
		t.tasks = map[string]*task{}
	}
	begun := &task{}
	t.tasks[name] = begun
	ctx, cancel := context.WithTimeout(context.Background(), taskTimeout)
	t.cancel = append(t.cancel, cancel)
	t.group.Go(func() {
		defer cancel()
		answer, err := run(ctx)
		t.mu.Lock()
		begun.done, begun.answer, begun.err = true, answer, err
		if len(t.running()) == 0 {
			t.cancel = nil
		}
		over := t.ended
		t.mu.Unlock()
		if !over {
			again()
		}
	})
	return "", false, nil
}

func (t *Tasks) running() []string {
	var names []string
	for name, task := range t.tasks {
		if !task.done {
			names = append(names, name)
		}
	}
	return names
}

// Run waits for the context to end, then cancels the running tasks and waits for them.
func (t *Tasks) Run(ctx context.Context) error {
	<-ctx.Done()
	t.mu.Lock()
	t.ended = true
	for _, cancel := range t.cancel {
		cancel()
	}
	t.mu.Unlock()
	t.group.Wait()
	return nil
}
