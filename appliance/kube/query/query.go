// Package query evaluates the jq queries of AgentClassifications. A query is a program that people
// write. A single function of it can take any time and memory, such as "[limit(1e9; repeat(1))]",
// and a limit inside a process can't interrupt the function. So a child process evaluates all
// queries. It ends itself when a query takes too long, and the system ends it when a query takes
// too much memory. The next query starts another child.
package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/itchyny/gojq"

	"landfall/appliance/process"
)

const (
	// MaxBytes is the size limit of a query. Nested expressions need memory to be parsed, also in
	// the appliance, which checks new queries.
	MaxBytes = 64 << 10
	// evaluationLimit is the time limit of a query on one inventory.
	evaluationLimit = time.Second
	// childLimit is the time after which a child ends itself, because a function does not observe
	// evaluationLimit.
	childLimit = 2 * time.Second
	// childBytes is the memory that a child may use for queries.
	childBytes = 256 << 20
	// idleLimit is the time after which a child without a query is ended, to free its memory.
	idleLimit = time.Minute
	// childName is the name under which a program starts itself as the child.
	childName = "landfall-query"
)

// ErrFailed is the cause of errors of a query. Other errors do not depend on the query.
var ErrFailed = errors.New("the query failed")

// errLimit is the reason for all limits of an evaluation: which of them ends a query depends on the
// load of the machine.
var errLimit = errors.New("it took too much time or memory")

// init becomes the child if the process was started as such. It is not a function that main calls,
// because each program that contains this package must be able to be the child, also a test.
func init() {
	if len(os.Args) == 1 && os.Args[0] == childName {
		_ = answer(os.Stdin, os.Stdout) // io.EOF when the appliance closes the input or ends
		os.Exit(0)
	}
}

// Check returns an error that says why a text can't be a query.
func Check(query string) error {
	if len(query) > MaxBytes {
		return fmt.Errorf("the query has %d bytes, at most %d are possible", len(query), MaxBytes)
	}
	if _, err := gojq.Parse(query); err != nil {
		return fmt.Errorf("the query %q is not a jq query: %w", query, err)
	}
	return nil
}

type request struct {
	Query     string          `json:"query"`
	Inventory json.RawMessage `json:"inventory"`
}

type result struct {
	Matches bool   `json:"matches"`
	Failure string `json:"failure,omitempty"`
}

// answer evaluates queries until the end of the input. It runs in the child.
func answer(in io.Reader, out io.Writer) error {
	debug.SetMemoryLimit(childBytes / 2)
	if err := process.LimitMemory(childBytes); err != nil {
		return err
	}
	requests, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r request
		if err := requests.Decode(&r); err != nil {
			return err
		}
		watchdog := time.AfterFunc(childLimit, func() { os.Exit(1) })
		matches, err := evaluate(r)
		watchdog.Stop()
		got := result{Matches: matches}
		if err != nil {
			got.Failure = err.Error()
		}
		if err := results.Encode(got); err != nil {
			return err
		}
	}
}

// evaluate runs a query on an inventory. The query must return exactly one boolean, which reports
// whether the inventory matches.
func evaluate(r request) (matches bool, err error) {
	parsed, err := gojq.Parse(r.Query)
	if err != nil {
		return false, fmt.Errorf("parse the query: %w", err)
	}
	var inventory any // jq requires the number types of decoded JSON
	if err := json.Unmarshal(r.Inventory, &inventory); err != nil {
		return false, fmt.Errorf("read the inventory: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), evaluationLimit)
	defer cancel()
	var values []any
	for iter := parsed.RunWithContext(ctx, inventory); ; {
		value, more := iter.Next()
		if !more {
			break
		}
		if err, ok := value.(error); ok {
			if ctx.Err() != nil {
				return false, errLimit
			}
			return false, fmt.Errorf("run the query: %w", err)
		}
		if values = append(values, value); len(values) > 1 {
			return false, errors.New("expected a boolean, found several values")
		}
	}
	if len(values) == 0 {
		return false, errors.New("expected a boolean, found no value")
	}
	matches, _ = values[0].(bool)
	return matches, nil
}

// Evaluator evaluates queries in a child process, which it starts for the first query. The zero
// Evaluator is ready to use. Its methods may be called from several goroutines. Nobody has to close
// it: a child ends when it is idle, and with the process.
type Evaluator struct {
	mu      sync.Mutex
	child   *exec.Cmd // nil: none runs
	in      io.WriteCloser
	results *json.Decoder
	idle    *time.Timer
}

// Matches reports whether an inventory (JSON) matches a query. The error is [ErrFailed] if the
// query can't be evaluated.
func (e *Evaluator) Matches(ctx context.Context, query string, inventory []byte) (bool, error) {
	if len(query) > MaxBytes { // stored by a former version
		return false, fmt.Errorf("%w: it has more than %d bytes", ErrFailed, MaxBytes)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.start(); err != nil {
		return false, fmt.Errorf("start a process for queries: %w", err)
	}
	child := e.child
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Kill() })
	var got result
	err := json.NewEncoder(e.in).Encode(request{query, inventory})
	if err == nil {
		err = e.results.Decode(&got)
	}
	stop()
	switch {
	case ctx.Err() != nil:
		e.end()
		return false, ctx.Err()
	case err != nil:
		e.end()
		return false, fmt.Errorf("%w: %w", ErrFailed, errLimit)
	case got.Failure != "":
		return false, fmt.Errorf("%w: %s", ErrFailed, got.Failure)
	}
	return got.Matches, nil
}

// start starts a child unless one runs. The lock is held.
func (e *Evaluator) start() error {
	if e.child != nil {
		e.idle.Reset(idleLimit)
		return nil
	}
	program := "/proc/self/exe" // the program's own file may have been replaced by a newer version
	if runtime.GOOS != "linux" {
		var err error
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	child := exec.Command(program)
	child.Args, child.Env, child.Dir = []string{childName}, []string{}, "/"
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	e.child, e.in, e.results = child, in, json.NewDecoder(out)
	e.idle = time.AfterFunc(idleLimit, e.Close)
	return nil
}

// Close ends the child. A later query starts another one.
func (e *Evaluator) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.child != nil {
		e.end()
	}
}

// end ends the child. The lock is held.
func (e *Evaluator) end() {
	e.idle.Stop()
	_ = e.child.Process.Kill()
	_ = e.child.Wait() // it also closes the pipes
	e.child = nil
}
