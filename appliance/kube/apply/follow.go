package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/kube/objects"
	"landfall/appliance/sentence"
)

// State is the progress of an applied object.
type State struct {
	Percent int64
	Text    string // one line for users
}

// FailedError reports the failure of an installation or image.
type FailedError struct{ Text string }

func (e *FailedError) Error() string { return e.Text }

// Follow polls the applied clusters until all are installed, and calls notify when a state changes.
// It also reports problems of infra-envs, servers and Agents. Without clusters it polls the
// infra-envs until their images exist. The error is a *FailedError if an installation or image has
// failed. If the context ends first, the error lists the last states.
func Follow(ctx context.Context, server *Server, clock clockwork.Clock, list []*Object, options Options,
	notify func(State)) error {
	f := &follower{lookup: &lookup{server: server, list: list, options: options}, notify: notify,
		last: map[string]string{}}
	targets := f.targets()
	if len(targets) == 0 {
		return nil
	}
	related := f.of(objects.BareMetalHosts)
	if !targets[0].Is(objects.InfraEnvs) {
		related = append(related, f.of(objects.InfraEnvs)...)
	}
	for {
		awaited, err := f.poll(ctx, targets, related)
		switch {
		case ctx.Err() != nil:
			return f.timeoutError()
		case err != nil || !awaited:
			return err
		}
		select {
		case <-ctx.Done():
			return f.timeoutError()
		case <-clock.After(pollInterval):
		}
	}
}

// follower polls objects.
type follower struct {
	*lookup
	notify  func(State)
	percent int64
	polls   int
	last    map[string]string // the last text of each object
	order   []string          // keys in the order of their first report
}

// poll reads all objects once. awaited reports whether at least one object is not finished.
func (f *follower) poll(ctx context.Context, targets, related []*Object) (awaited bool, err error) {
	for _, o := range targets {
		content, err := f.server.get(ctx, o.APIVersion, o.Kind, f.namespace(o), o.Name)
		if err != nil {
			return true, err
		}
		state, done, err := progress(o, content)
		f.percent = state.Percent
		f.report(o.String()+" "+o.Namespace, state.Text)
		if err != nil {
			return true, err
		}
		awaited = awaited || !done
	}
	for _, o := range related {
		content, err := f.server.get(ctx, o.APIVersion, o.Kind, f.namespace(o), o.Name)
		if err != nil {
			return true, err
		}
		f.report(o.String()+" "+o.Namespace, blocker(o, content))
	}
	if !targets[0].Is(objects.InfraEnvs) && f.polls%agentPollRatio == 0 {
		if err := f.pollAgents(ctx); err != nil {
			return true, err
		}
	}
	f.polls++
	return awaited, nil
}

// report calls notify if the text of an object is new and not empty.
func (f *follower) report(key, text string) {
	before, known := f.last[key]
	if !known {
		f.order = append(f.order, key)
	}
	if f.last[key] = text; text != "" && text != before {
		f.notify(State{Percent: f.percent, Text: text})
	}
}

// timeoutError returns an error with the last state of each object, for a context that has ended.
func (f *follower) timeoutError() error {
	var texts []string
	for _, key := range f.order {
		if f.last[key] != "" {
			texts = append(texts, f.last[key])
		}
	}
	return fmt.Errorf("not finished: %s", strings.Join(texts, "; "))
}

// targets returns the objects to wait for: the clusters or, without clusters, the infra-envs.
func (l *lookup) targets() []*Object {
	if found := l.of(objects.AgentClusterInstalls); len(found) > 0 {
		return found
	}
	return l.of(objects.InfraEnvs)
}

func (l *lookup) of(kind objects.Kind) (found []*Object) {
	for _, o := range l.list {
		if o.Is(kind) {
			found = append(found, o)
		}
	}
	return found
}

// Advice for users, appended to a problem.
const (
	adviceCorrect = "correct the named values and apply the object again"
	adviceOutside = "it is retried automatically, and immediately after a change of a referenced object"
)

// blocker returns the problem of an infra-env's image, or of a server that must boot it; "" for
// none.
func blocker(o *Object, content map[string]any) string {
	if o.Is(objects.BareMetalHosts) {
		kind, message := textAt(content, "status", "errorType"), textAt(content, "status", "errorMessage")
		if kind == "" {
			return ""
		}
		return fmt.Sprintf("%s: %s: %s; %s", o, kind, sentence.Clause(message), adviceOutside)
	}
	c := conditionOf(content, "ImageCreated")
	advice := adviceCorrect
	switch {
	case c == nil || textAt(c, "status") == "True":
		return ""
	case textAt(c, "status") == "Unknown":
		advice = "it continues when the ClusterDeployment's cluster is registered"
	case strings.Contains(textAt(c, "message"), "internal error"):
		advice = adviceOutside
	}
	return fmt.Sprintf("%s: ImageCreated is %s, %s: %s; %s", o, textAt(c, "status"), textAt(c, "reason"),
		sentence.Clause(textAt(c, "message")), advice)
}

// progress parses the status of an object.
func progress(o *Object, content map[string]any) (state State, done bool, err error) {
	name := o.Name
	if o.Namespace != "" && o.Namespace != o.Name {
		name = o.Namespace + "/" + o.Name
	}
	if content == nil {
		return State{Text: name + ": deleted"}, false, &FailedError{fmt.Sprintf("%s was deleted in the meantime", o)}
	}
	if o.Is(objects.InfraEnvs) {
		if image := textAt(content, "status", "isoDownloadURL"); image != "" {
			return State{Percent: 100, Text: name + ": " + image}, true, nil
		}
		if blocked := blocker(o, content); blocked != "" {
			return State{Text: blocked}, false, nil
		}
		return State{Text: name + ": " + orWaiting("")}, false, nil
	}
	if n, convErr := numberAt(content, "status", "progress", "totalPercentage"); convErr == nil {
		state.Percent = n
	}
	status, text := condition(content, "Completed")
	if status == "True" {
		return State{Percent: 100, Text: name + ": " + text}, true, nil
	}
	if failed, why := condition(content, "Failed"); failed == "True" {
		return State{Percent: state.Percent, Text: name + ": " + why}, false,
			&FailedError{fmt.Sprintf("%s: %s", name, why)}
	}
	if synced, why := condition(content, "SpecSynced"); synced == "False" {
		text = why
	} else if valid, why := condition(content, "Validated"); valid == "False" {
		text = why
	} else if why := notStarted(content); why != "" {
		text = why
	} else if info := textAt(content, "status", "debugInfo", "stateInfo"); info != "" {
		text = info
	}
	state.Text = name + ": " + orWaiting(text)
	return state, false, nil
}

func orWaiting(text string) string {
	if text == "" {
		return "no status yet"
	}
	return strings.Join(strings.Fields(text), " ")
}

// condition returns the status and the message of a condition.
func condition(content map[string]any, kind string) (status, message string) {
	c := conditionOf(content, kind)
	return textAt(c, "status"), textAt(c, "message")
}

// conditionOf returns a condition of an object; nil if it has none of the kind.
func conditionOf(content map[string]any, kind string) any {
	list, _ := valueAt(content, "status", "conditions").([]any)
	for _, value := range list {
		if textAt(value, "type") == kind {
			return value
		}
	}
	return nil
}

func numberAt(content map[string]any, path ...string) (int64, error) {
	number, ok := valueAt(content, path...).(interface{ Int64() (int64, error) })
	if !ok {
		return 0, errors.New("not a number")
	}
	return number.Int64()
}
