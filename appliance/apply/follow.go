package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/objects"
)

// State is how far something that was applied has come.
type State struct {
	Percent int64
	Text    string // a line for people
}

// FailedError says what did not get to its end.
type FailedError struct{ Text string }

func (e *FailedError) Error() string { return e.Text }

// Follow looks at the clusters that were applied until all of them are installed, and tells when something is new. Without clusters it
// looks at the infra-envs until their images are there. The error is a *FailedError when one of them has failed, and for a context that
// ends says what was still awaited.
func Follow(ctx context.Context, server *Server, clock clockwork.Clock, list []*Object, options Options, tell func(State)) error {
	l := &lookup{server: server, list: list, options: options}
	followed := l.followed()
	if len(followed) == 0 {
		return nil
	}
	last := make([]string, len(followed))
	for {
		awaited := ""
		for i, o := range followed {
			content, err := server.get(ctx, o.APIVersion, o.Kind, l.namespace(o), o.Name)
			if err != nil {
				if ctx.Err() != nil {
					return fmt.Errorf("the end was not awaited: %s", strings.Join(last, "; "))
				}
				return err
			}
			state, done, err := progress(o, content)
			if state.Text != last[i] {
				last[i] = state.Text
				tell(state)
			}
			if err != nil {
				return err
			}
			if !done {
				awaited += state.Text
			}
		}
		if awaited == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the end was not awaited: %s", strings.Join(last, "; "))
		case <-clock.After(pause):
		}
	}
}

// followed are the objects that have an end to wait for.
func (l *lookup) followed() []*Object {
	for _, kind := range []objects.Kind{objects.AgentClusterInstalls, objects.InfraEnvs} {
		var found []*Object
		for _, o := range l.list {
			if o.Is(kind) {
				found = append(found, o)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
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
		status, text := condition(content, "ImageCreated")
		if status == "True" {
			return State{Percent: 100, Text: name + ": " + textAt(content, "status", "isoDownloadURL")}, true, nil
		}
		return State{Text: name + ": " + orWaiting(text)}, false, nil
	}
	if n, convErr := numberAt(content, "status", "progress", "totalPercentage"); convErr == nil {
		state.Percent = n
	}
	status, text := condition(content, "Completed")
	if status == "True" {
		return State{Percent: 100, Text: name + ": " + text}, true, nil
	}
	if failed, why := condition(content, "Failed"); failed == "True" {
		return State{Percent: state.Percent, Text: name + ": " + why}, false, &FailedError{fmt.Sprintf("%s: %s", name, why)}
	}
	if synced, why := condition(content, "SpecSynced"); synced == "False" {
		text = why
	} else if valid, why := condition(content, "Validated"); valid == "False" {
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
	list, _ := valueAt(content, "status", "conditions").([]any)
	for _, value := range list {
		if textAt(value, "type") == kind {
			return textAt(value, "status"), textAt(value, "message")
		}
	}
	return "", ""
}

func numberAt(content map[string]any, path ...string) (int64, error) {
	number, ok := valueAt(content, path...).(interface{ Int64() (int64, error) })
	if !ok {
		return 0, errors.New("no number")
	}
	return number.Int64()
}
