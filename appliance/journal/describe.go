package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Describer describes steps in sentences. It records the names of hosts, so Describe must be called
// for all steps in order.
type Describer struct {
	names map[string]string // names of hosts, by ID
	last  time.Time         // time of the previous step
}

// NewDescriber returns a describer for a recording that begins with the given objects.
func NewDescriber(base []Object) *Describer {
	d := &Describer{names: make(map[string]string)}
	for _, object := range base {
		if value, err := decode(object.Value); err == nil {
			d.recordName(object.Key, value)
		}
	}
	return d
}

// Line is one sentence of a description.
type Line struct {
	// Kind is cluster, host, infra-env, event, validation, report, file or other.
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Description describes a step in sentences.
type Description struct {
	Actor     string `json:"who"` // user, cluster, appliance, or the name of a host
	Operation string `json:"what"`
	Lines     []Line `json:"lines"`
	// Delay is the time since the previous step.
	Delay time.Duration `json:"-"`
}

// Describe describes the step that was applied last.
func (d *Describer) Describe(applied *AppliedStep) Description {
	description := Description{Operation: operation(applied.Step)}
	if !applied.At.IsZero() {
		if !d.last.IsZero() {
			description.Delay = applied.At.Sub(d.last)
		}
		d.last = applied.At
	}
	for _, effect := range applied.Effects {
		value := applied.state[effect.Key]
		d.recordName(effect.Key, value)
		description.Lines = append(description.Lines, d.effect(effect, value)...)
	}
	description.Actor = actor(applied.Operation)
	switch {
	case description.Actor == "host" && applied.Host != "":
		description.Actor = d.host(applied.Host)
	case applied.Host != "":
		description.Operation += " of " + d.host(applied.Host)
	}
	if reply := applied.Reply; reply != nil && (reply.ExitCode != 0 || reply.Error != "") {
		description.Lines = append(description.Lines, Line{"report", fmt.Sprintf("%s ended with %d: %s", reply.Type,
			reply.ExitCode,
			oneLine(orText(reply.Error, reply.Output)))})
	}
	slices.SortStableFunc(description.Lines, func(a, b Line) int { return order(a.Kind) - order(b.Kind) })
	return description
}

func order(kind string) int {
	return slices.Index([]string{"infra-env", "report", "validation", "host", "cluster", "file", "other", "event"},
		kind)
}

// actor returns the caller of an operation: a host, the controller in the cluster, the appliance
// itself or a user.
func actor(operation string) string {
	switch operation {
	case "v2RegisterHost", "v2GetNextSteps", "v2PostStepReply", "v2UpdateHostInstallProgress",
		"v2UpdateHostLogsProgress", "v2GetHostIgnition", "v2TriggerEvent":
		return "host"
	case "v2CompleteInstallation", "v2UpdateClusterFinalizingProgress", "v2ReportMonitoredOperatorStatus",
		"v2UploadClusterIngressCert", "v2UpdateClusterLogsProgress", "V2UploadLogs":
		return "cluster"
	case "", "timer", "preparation":
		return "appliance"
	}
	return "user"
}

// operation returns a readable name of a step's operation.
func operation(step *Step) string {
	switch {
	case step.Reply != nil:
		return fmt.Sprintf("reply to %s (%d bytes)", step.Reply.Type, step.Reply.Bytes)
	case step.Operation == "":
		return "change"
	case step.Operation == "v2GetNextSteps":
		return "poll"
	}
	name := strings.TrimPrefix(strings.TrimPrefix(step.Operation, "v2"), "V2")
	return name
}

// recordName records the name of a host if a row contains it.
func (d *Describer) recordName(key string, value any) {
	switch kind, rest := split(key); kind {
	case "hosts":
		_, id, _ := strings.Cut(rest, "/")
		if name := textAt(value, "api", "requested_hostname"); name != "" {
			d.names[id] = name
		}
	case "reports":
		parts := strings.Split(rest, "/")
		if name := textAt(value, "hostname"); len(parts) == 3 && parts[2] == "inventory" && name != "" &&
			d.names[parts[1]] == "" {
			d.names[parts[1]] = name
		}
	}
}

func split(key string) (kind, rest string) {
	kind, rest, _ = strings.Cut(strings.TrimPrefix(key, "/"), "/")
	return kind, rest
}

func (d *Describer) host(id string) string {
	if name := d.names[id]; name != "" {
		return name
	}
	return id[:min(8, len(id))]
}

// effect describes the change of one object.
func (d *Describer) effect(effect Effect, value any) []Line {
	kind, rest := split(effect.Key)
	switch kind {
	case "clusters":
		return d.object("cluster", "cluster "+textAt(orValue(value, effect.Before), "api", "name"), effect, value)
	case "hosts":
		_, id, _ := strings.Cut(rest, "/")
		return d.object("host", "host "+d.host(id), effect, value)
	case "infra-envs":
		return d.object("infra-env", "infra-env "+textAt(orValue(value, effect.Before), "api", "name"), effect, value)
	case "events":
		if value == nil {
			return nil
		}
		return []Line{{"event", fmt.Sprintf("%s %s: %s", textAt(value, "severity"), textAt(value, "name"),
			textAt(value, "message"))}}
	case "validations":
		return d.validations(rest, effect, value)
	case "reports":
		return d.report(rest, effect, value)
	case "files":
		_, name, _ := strings.Cut(rest, "/")
		if effect.Deleted {
			return []Line{{"file", "file " + name + " was removed"}}
		}
		return []Line{{"file", fmt.Sprintf("file %s was written, %s bytes", name, textAt(value, "size"))}}
	case "subscriptions":
		return []Line{{"other", fmt.Sprintf("queued for AMS: %s (generation %s)", textAt(value, "phase"),
			textAt(value, "generation"))}}
	}
	return []Line{{"other", effect.Key + " changed"}}
}

// object describes the change of a cluster, an infra-env or a host.
func (d *Describer) object(kind, name string, effect Effect, value any) []Line {
	switch {
	case effect.Deleted:
		return []Line{{kind, name + " was deleted"}}
	case effect.Created != nil:
		text := name + " was created"
		if status := textAt(value, "api", "status"); status != "" {
			text += ", " + stateName(status)
		}
		return []Line{{kind, text}}
	}
	var lines []Line
	var others []string
	for i, edit := range effect.Patch {
		switch path := strings.TrimPrefix(edit.Path, "/api"); path {
		case "/status":
			lines = append(lines, Line{kind, fmt.Sprintf("%s changed from %s to %s. %s", name,
				stateName(text(effect.Was[i])), stateName(scalar(edit)),
				oneLine(textAt(value, "api", "status_info")))})
		case "/progress/current_stage":
			lines = append(lines, Line{kind, fmt.Sprintf("%s changed from stage %q to %q", name,
				text(effect.Was[i]), scalar(edit))})
		case "/progress":
			if stage := textAt(value, "api", "progress", "current_stage"); stage != "" {
				lines = append(lines, Line{kind, fmt.Sprintf("%s: stage %q", name, stage)})
			}
		case "/status_info":
			others = append(others, fmt.Sprintf("status_info %q", oneLine(scalar(edit))))
		default:
			if strings.HasSuffix(path, "_at") || path == "/timestamp" {
				continue // the step itself has a time
			}
			others = append(others, difference(strings.TrimPrefix(path, "/"), edit, effect.Was[i]))
		}
	}
	if len(lines) > 0 {
		others = slices.DeleteFunc(others, func(text string) bool { return strings.HasPrefix(text, "status_info") })
	}
	const most = 6
	if len(others) > most {
		others = append(others[:most], fmt.Sprintf("and %d more", len(others)-most))
	}
	if len(others) > 0 {
		lines = append(lines, Line{kind, name + ": " + strings.Join(others, "; ")})
	}
	return lines
}

// difference describes an edit briefly.
func difference(path string, edit Edit, was any) string {
	before, after := text(was), scalar(edit)
	switch {
	case edit.Op == opRemove:
		return path + " removed"
	case len(before)+len(after) > 120:
		return path + " changed"
	case edit.Op == opAdd || before == "":
		return path + " = " + after
	}
	return path + " from " + before + " to " + after
}

// validations describes which validations changed their status.
func (d *Describer) validations(subject string, effect Effect, value any) []Line {
	name := "cluster"
	if id, ok := strings.CutPrefix(subject, "host/"); ok {
		_, id, _ = strings.Cut(id, "/")
		name = "host " + d.host(id)
	}
	switch {
	case effect.Deleted:
		return nil
	case effect.Created != nil:
		var failing []string
		groups, _ := value.(map[string]any)
		for _, group := range groups {
			list, _ := group.([]any)
			for _, result := range list {
				if textAt(result, "status") == "failure" {
					failing = append(failing, oneLine(textAt(result, "message")))
				}
			}
		}
		slices.Sort(failing)
		return []Line{{"validation", fmt.Sprintf("%s: checked for the first time. Failed: %s", name,
			orText(strings.Join(failing, " "), "none"))}}
	}
	var lines []Line
	for _, edit := range effect.Patch {
		path := edit.segments()
		if len(path) != 3 || path[2] != "status" {
			continue
		}
		result, err := member(orValue(value, nil), path[0])
		if err == nil {
			result, err = member(result, path[1])
		}
		if err == nil {
			lines = append(lines, Line{"validation", fmt.Sprintf("%s: a check %s: %s", name, verdictOf(scalar(edit)),
				oneLine(textAt(result, "message")))})
		}
	}
	return lines
}

// report describes the change of a host's report.
func (d *Describer) report(rest string, effect Effect, value any) []Line {
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return nil
	}
	name, part := "host "+d.host(parts[1]), parts[2]
	switch {
	case effect.Deleted:
		return []Line{{"report", name + ": its reported " + part + " was removed"}}
	case effect.Created != nil:
		return []Line{{"report", fmt.Sprintf("%s reported its %s (%d bytes)", name, part, len(effect.Created))}}
	}
	var differences []string
	for i, edit := range effect.Patch {
		if i == 4 {
			differences = append(differences, fmt.Sprintf("and %d more", len(effect.Patch)-i))
			break
		}
		differences = append(differences, difference(strings.TrimPrefix(edit.Path, "/"), edit, effect.Was[i]))
	}
	return []Line{{"report", name + " reported a changed " + part + ": " + strings.Join(differences, "; ")}}
}

// textAt returns the text or number at a path of members, or "".
func textAt(value any, path ...string) string {
	for _, name := range path {
		var err error
		if value, err = member(value, name); err != nil {
			return ""
		}
	}
	return text(value)
}

func text(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case json.Number:
		return value.String()
	}
	encoded, err := canonical(value)
	if err != nil {
		return ""
	}
	return string(encoded)
}

// scalar returns the value of an edit as text.
func scalar(edit Edit) string {
	if edit.Value == nil {
		return ""
	}
	value, err := decode(edit.Value)
	if err != nil {
		return string(edit.Value)
	}
	return text(value)
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func orValue(value, otherwise any) any {
	if value == nil {
		return otherwise
	}
	return value
}
