package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/kube/objects"
)

// State is how far something that was applied has come.
type State struct {
	Percent int64
	Text    string // a line for people
}

// FailedError says what did not get to its end.
type FailedError struct{ Text string }

func (e *FailedError) Error() string { return e.Text }

// Follow looks at the clusters that were applied until all of them are installed, and tells when
// something is new; of infra-envs, servers and Agents too, if something holds them up. Without
// clusters it looks at the infra-envs until their images are there. The error is a *FailedError
// when one of them has failed, and for a context that ends says what was still awaited, and what
// held it up.
func Follow(ctx context.Context, server *Server, clock clockwork.Clock, list []*Object, options Options,
	tell func(State)) error {
	f := &follower{lookup: &lookup{server: server, list: list, options: options}, tell: tell, last: map[string]string{}}
	followed := f.followed()
	if len(followed) == 0 {
		return nil
	}
	hindering := f.of(objects.BareMetalHosts)
	if !followed[0].Is(objects.InfraEnvs) {
		hindering = append(hindering, f.of(objects.InfraEnvs)...)
	}
	for {
		awaited, err := f.round(ctx, followed, hindering)
		switch {
		case ctx.Err() != nil:
			return f.ended()
		case err != nil || !awaited:
			return err
		}
		select {
		case <-ctx.Done():
			return f.ended()
		case <-clock.After(pause):
		}
	}
}

// follower looks at objects again and again.
type follower struct {
	*lookup
	tell    func(State)
	percent int64
	rounds  int
	last    map[string]string // what was said of each
	order   []string          // of its keys
}

// round looks at everything once; awaited tells whether something has yet to come to its end.
func (f *follower) round(ctx context.Context, followed, hindering []*Object) (awaited bool, err error) {
	for _, o := range followed {
		content, err := f.server.get(ctx, o.APIVersion, o.Kind, f.namespace(o), o.Name)
		if err != nil {
			return true, err
		}
		state, done, err := progress(o, content)
		f.percent = state.Percent
		f.say(o.String()+" "+o.Namespace, state.Text)
		if err != nil {
			return true, err
		}
		awaited = awaited || !done
	}
	for _, o := range hindering {
		content, err := f.server.get(ctx, o.APIVersion, o.Kind, f.namespace(o), o.Name)
		if err != nil {
			return true, err
		}
		f.say(o.String()+" "+o.Namespace, hindrance(o, content))
	}
	if !followed[0].Is(objects.InfraEnvs) && f.rounds%agentRounds == 0 {
		if err := f.lookAtAgents(ctx); err != nil {
			return true, err
		}
	}
	f.rounds++
	return awaited, nil
}

// say tells what is new of one of those that are looked at; nothing is told of one that nothing is
// said of.
func (f *follower) say(key, text string) {
	before, known := f.last[key]
	if !known {
		f.order = append(f.order, key)
	}
	if f.last[key] = text; text != "" && text != before {
		f.tell(State{Percent: f.percent, Text: text})
	}
}

// ended is the error of a context that ended.
func (f *follower) ended() error {
	var texts []string
	for _, key := range f.order {
		if f.last[key] != "" {
			texts = append(texts, f.last[key])
		}
	}
	return fmt.Errorf("the end was not awaited: %s", strings.Join(texts, "; "))
}

// followed are the objects that have an end to wait for.
func (l *lookup) followed() []*Object {
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

// What people can do about a fault.
const (
	adviceCorrect = "correct what it names and apply it again"
	adviceOutside = "it is tried again by itself, and at once when what it refers to changes"
)

// hindrance is what stands in the way of an infra-env's image, or of a server that is to boot it;
// "" for nothing.
func hindrance(o *Object, content map[string]any) string {
	if o.Is(objects.BareMetalHosts) {
		kind, message := textAt(content, "status", "errorType"), textAt(content, "status", "errorMessage")
		if kind == "" {
			return ""
		}
		return fmt.Sprintf("%s: %s: %s; %s", o, kind, sentence(message), adviceOutside)
	}
	c := conditionOf(content, "ImageCreated")
	advice := adviceCorrect
	switch {
	case c == nil || textAt(c, "status") == "True":
		return ""
	case textAt(c, "status") == "Unknown":
		advice = "it goes on when the ClusterDeployment's cluster is registered"
	case strings.Contains(textAt(c, "message"), "internal error"):
		advice = adviceOutside
	}
	return fmt.Sprintf("%s: ImageCreated is %s, %s: %s; %s", o, textAt(c, "status"), textAt(c, "reason"),
		sentence(textAt(c, "message")), advice)
}

// sentence is a text as a part of one.
func sentence(text string) string {
	return strings.TrimRight(strings.Join(strings.Fields(text), " "), ".")
}

// progress reads an object's status.
func progress(o *Object, content map[string]any) (state State, done bool, err error) {
	name := o.Name
	if o.Namespace != "" && o.Namespace != o.Name {
		name = o.Namespace + "/" + o.Name
	}
	if content == nil {
		return State{Text: name + ": gone"}, false, &FailedError{fmt.Sprintf("%s was removed meanwhile", o)}
	}
	if o.Is(objects.InfraEnvs) {
		if image := textAt(content, "status", "isoDownloadURL"); image != "" {
			return State{Percent: 100, Text: name + ": " + image}, true, nil
		}
		if hindered := hindrance(o, content); hindered != "" {
			return State{Text: hindered}, false, nil
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
		return "nothing has been said yet"
	}
	return strings.Join(strings.Fields(text), " ")
}

// condition is the status and message of a condition.
func condition(content map[string]any, kind string) (status, message string) {
	c := conditionOf(content, kind)
	return textAt(c, "status"), textAt(c, "message")
}

// conditionOf is a condition of an object; nil if it has none of the kind.
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
		return 0, errors.New("no number")
	}
	return number.Int64()
}
