package scenario

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"landfall/appliance/hosted/record"
	"landfall/appliance/simulate"
)

//go:embed examples/*.yaml
var exampleFiles embed.FS

// Error describes a problem in a scenario file, with its place, in one sentence.
type Error struct {
	File    string
	Line    int    // 0 means the whole file
	Problem string // the key, the problem, and the expected value
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Problem)
	}
	return e.File + ": " + e.Problem
}

// fileLimit is the maximum size of a scenario file in bytes.
const fileLimit = 1 << 20

// Load reads a scenario file. If the file is invalid, the error is an *Error.
func Load(file string) (*Scenario, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > fileLimit {
		return nil, &Error{File: file, Problem: fmt.Sprintf("the file has %d bytes; a scenario has at most %d",
			info.Size(), fileLimit)}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, &Error{File: file, Problem: fmt.Sprintf("the scenario can't be read: %v", err)}
	}
	return Parse(file, text)
}

// Example returns an embedded scenario.
func Example(name string) (*Scenario, error) {
	text, err := ExampleText(name)
	if err != nil {
		return nil, err
	}
	return Parse(name+".yaml", text)
}

// ExampleText returns the text of an embedded scenario.
func ExampleText(name string) ([]byte, error) {
	text, err := exampleFiles.ReadFile("examples/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("the example %q does not exist; the examples are %s", name,
			strings.Join(Examples(), ", "))
	}
	return text, nil
}

// Examples returns the names of the embedded scenarios.
func Examples() []string {
	files, err := exampleFiles.ReadDir("examples")
	if err != nil {
		return nil
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(path.Base(file.Name()), ".yaml"))
	}
	return names
}

// Parse parses the text of a scenario file. If the text is invalid, the error is an *Error with the
// given file name.
func Parse(file string, text []byte) (*Scenario, error) {
	d := &decoder{file: file}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, d.noYAML(err)
	}
	s := &Scenario{Start: Time{time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)}}
	if len(document.Content) == 0 {
		return nil, &Error{File: file, Problem: "the file is empty; a scenario has at least the keys days and sites"}
	}
	if err := d.decode(document.Content[0], "", reflect.ValueOf(s).Elem()); err != nil {
		return nil, err
	}
	return s, d.complete(s, document.Content[0])
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

func (d *decoder) noYAML(err error) error {
	problem := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if found := yamlLine.FindStringSubmatch(problem); found != nil {
		line, _ = strconv.Atoi(found[1])
		problem = strings.Replace(problem, found[0], "", 1)
	}
	return &Error{d.file, line, "the file is not YAML: " + problem}
}

// decoder decodes YAML into structs. It rejects unknown keys.
type decoder struct{ file string }

// leaf is a value that parses itself.
type leaf interface {
	read(text string) error
	expects() string
}

func (d *decoder) wrong(node *yaml.Node, key, format string, args ...any) error {
	if key == "" {
		key = "the scenario"
	}
	return &Error{d.file, node.Line, key + ": " + fmt.Sprintf(format, args...)}
}

func (d *decoder) decode(node *yaml.Node, key string, into reflect.Value) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if form, ok := into.Addr().Interface().(leaf); ok {
		if node.Kind != yaml.ScalarNode || form.read(node.Value) != nil {
			return d.wrong(node, key, "%s; expected %s", found(node), form.expects())
		}
		return nil
	}
	switch into.Kind() {
	case reflect.Struct:
		return d.structure(node, key, into)
	case reflect.Slice:
		return d.list(node, key, into)
	case reflect.Map:
		return d.table(node, key, into)
	}
	if node.Kind != yaml.ScalarNode || node.Decode(into.Addr().Interface()) != nil || node.Tag == "!!null" {
		return d.wrong(node, key, "%s; expected %s", found(node), expected(into.Kind()))
	}
	return nil
}

// found describes the rejected value in an error.
func found(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "the value is a mapping"
	case node.Kind == yaml.SequenceNode:
		return "the value is a list"
	case node.Tag == "!!null":
		return "the value is missing"
	}
	value := node.Value
	if len(value) > 40 {
		value = value[:40] + "…"
	}
	return fmt.Sprintf("the value is %q", value)
}

func expected(kind reflect.Kind) string {
	switch kind {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number of at least 0"
	case reflect.Bool:
		return "true or false"
	}
	return "a text"
}

func (d *decoder) structure(node *yaml.Node, key string, into reflect.Value) error {
	fields := make(map[string]int)
	var names []string
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("yaml")
		fields[name] = i
		names = append(names, name)
	}
	slices.Sort(names)
	if node.Kind != yaml.MappingNode {
		return d.wrong(node, key, "%s; expected keys of %s", found(node), strings.Join(names, ", "))
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i].Value
		at, ok := fields[name]
		if !ok {
			return d.wrong(node.Content[i], join(key, name), "the key is unknown; expected one of %s",
				strings.Join(names, ", "))
		}
		if seen[name] {
			return d.wrong(node.Content[i], join(key, name), "the key occurs twice")
		}
		seen[name] = true
		if err := d.decode(node.Content[i+1], join(key, name), into.Field(at)); err != nil {
			return err
		}
	}
	return nil
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func (d *decoder) list(node *yaml.Node, key string, into reflect.Value) error {
	if node.Kind != yaml.SequenceNode {
		return d.wrong(node, key, "%s; expected a list", found(node))
	}
	for i, item := range node.Content {
		element := reflect.New(into.Type().Elem()).Elem()
		if err := d.decode(item, fmt.Sprintf("%s[%d]", key, i), element); err != nil {
			return err
		}
		into.Set(reflect.Append(into, element))
	}
	return nil
}

func (d *decoder) table(node *yaml.Node, key string, into reflect.Value) error {
	if node.Kind != yaml.MappingNode {
		return d.wrong(node, key, "%s; expected faults and their shares", found(node))
	}
	into.Set(reflect.MakeMap(into.Type()))
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i].Value
		if problem := unknownFault(key, name); problem != "" {
			return d.wrong(node.Content[i], join(key, name), "%s", problem)
		}
		value := reflect.New(into.Type().Elem()).Elem()
		if err := d.decode(node.Content[i+1], join(key, name), value); err != nil {
			return err
		}
		into.SetMapIndex(reflect.ValueOf(name), value)
	}
	return nil
}

// unknownFault returns an error text for an unknown fault, or "".
func unknownFault(key, name string) string {
	if strings.HasSuffix(key, ".clusters") {
		if !slices.Contains(clusterFaults, name) {
			return "the fault is unknown; expected one of " + strings.Join(clusterFaults, ", ")
		}
		return ""
	}
	if name == PowerLoss {
		return ""
	}
	faults, err := simulate.ParseFaults(name)
	switch {
	case err != nil:
		return err.Error() + ", and " + PowerLoss
	case len(faults) != 1 || faults[0].Host != 0:
		return "expected one fault, without the number of a host"
	}
	return ""
}

// Limits of a scenario.
const (
	mostDays     = 36500
	mostSites    = 10_000
	mostClusters = 100
	mostHosts    = 200

	mostManagement = 20
)

// hostedStates are the states that a scenario can expect of a hosted cluster.
var hostedStates = []string{record.Accepted, record.Provisioning, record.Updating, record.Succeeded, record.Failed,
	record.Deleting, gone}

// complete sets defaults and rejects scenarios that cannot be run.
func (d *decoder) complete(s *Scenario, document *yaml.Node) error {
	if s.Name == "" {
		s.Name = strings.TrimSuffix(path.Base(d.file), ".yaml")
	}
	if s.Days < 1 || s.Days > mostDays {
		return d.wrong(valueOf(document, "days"), "days", "the value is %d; expected a whole number from 1 to %d",
			s.Days,
			mostDays)
	}
	if len(s.Sites) == 0 {
		return d.wrong(document, "sites", "the list is missing; expected at least one kind of site")
	}
	for i := range s.Sites {
		node := valueOf(document, "sites").Content[i]
		if err := d.completeKind(&s.Sites[i], node, fmt.Sprintf("sites[%d]", i)); err != nil {
			return err
		}
	}
	if s.SiteCount() > mostSites {
		return d.wrong(valueOf(document, "sites"), "sites", "the scenario has %d sites; expected at most %d",
			s.SiteCount(),
			mostSites)
	}
	return nil
}

func (d *decoder) completeKind(k *Kind, node *yaml.Node, key string) error {
	setDefault(&k.Name, "kind-"+strings.TrimSuffix(strings.TrimPrefix(key, "sites["), "]"))
	setDefault(&k.Count, 1)
	setDefault(&k.Clusters, 1)
	setDefault(&k.Topology, 1)
	setDefault(&k.Binding, early)
	setDefault(&k.People.Think, Span(10*time.Minute))
	if k.Hosted.Management > 0 {
		setDefault(&k.Hosted.Clusters, 5)
		setDefault(&k.Hosted.Decide, Span(2*time.Hour))
	}
	for _, number := range []struct {
		name            string
		is, least, most int
	}{
		{"count", k.Count, 1, mostSites}, {"clusters", k.Clusters, 1, mostClusters},
		{"workers", k.Workers, 0, mostHosts}, {"spares", k.Spares, 0, mostHosts},
		{"hosted.management_clusters", k.Hosted.Management, 0, mostManagement},
		{"hosted.clusters", k.Hosted.Clusters, 0, mostHosts},
		{"hardware.cpus", k.Hardware.CPUs, 0, 4096}, {"hardware.memory_gib", k.Hardware.MemoryGiB, 0, 1 << 16},
		{"hardware.disks", k.Hardware.Disks, 0, 256}, {"hardware.disk_gb", k.Hardware.DiskGB, 0, 1 << 20},
	} {
		if number.is < number.least || number.is > number.most {
			return d.wrong(valueOf(node, number.name), join(key, number.name),
				"the value is %d; expected a whole number from %d to %d", number.is, number.least, number.most)
		}
	}
	if k.Topology == 1 && k.Workers > 0 {
		return d.wrong(valueOf(node, "workers"), join(key, "workers"),
			"the value is %d; expected 0 with the topology single-node", k.Workers)
	}
	if k.People.Think < Span(time.Minute) {
		return d.wrong(valueOf(node, "people.think"), join(key, "people.think"),
			"the value is %s; expected at least 1m",
			time.Duration(k.People.Think))
	}
	for _, outage := range []struct {
		name  string
		is    Outage
		least Span
	}{{"faults.restart", k.Faults.Restart, 0}, {"faults.power_cut", k.Faults.PowerCut, 0},
		{"faults.sleep", k.Faults.Sleep, 1}, {"hosted.line", k.Hosted.Line, 1}} {
		if outage.is.Every > 0 && outage.is.Every < Span(time.Hour) {
			return d.wrong(valueOf(node, outage.name), join(key, outage.name+".every"),
				"the value is %s; expected at least 1h", time.Duration(outage.is.Every))
		}
		if outage.is.Every > 0 && outage.is.For < outage.least {
			return d.wrong(valueOf(node, outage.name), join(key, outage.name+".for"),
				"the key is missing; expected %s", new(Span).expects())
		}
	}
	for i, act := range k.Script {
		if err := d.completeAct(k, act, valueOf(node, "script").Content[i], fmt.Sprintf("%s.script[%d]", key,
			i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) completeAct(k *Kind, act Act, node *yaml.Node, key string) error {
	hosts := int(k.Topology) + k.Workers + k.Spares
	ofHosted := slices.Contains([]Doing{doCreateHosted, doScaleHosted, doDeleteHosted, doExpectHosted}, act.Do)
	switch {
	case act.Do == "":
		return d.wrong(node, join(key, "do"), "the key is missing; expected %s", act.Do.expects())
	case k.Hosted.Management == 0 && slices.Contains(aboutHosted, act.Do):
		return d.wrong(node, join(key, "do"), "the act needs hosted clusters; expected the key "+
			"hosted.management_clusters")
	case ofHosted && act.Name == "":
		return d.wrong(node, join(key, "name"), "the key is missing; expected the name of a hosted cluster")
	case !ofHosted && act.Name != "":
		return d.wrong(node, join(key, "name"), "the key is valid only for acts about a hosted cluster")
	case act.Do == doExpectHosted && !slices.Contains(hostedStates, act.State):
		return d.wrong(node, join(key, "state"), "the value is %q; expected one of %s", act.State,
			strings.Join(hostedStates, ", "))
	case act.Nodes < 0 || act.Nodes > mostHosts:
		return d.wrong(node, join(key, "nodes"), "the value is %d; expected a whole number from 0 to %d", act.Nodes,
			mostHosts)
	case act.Host < 0 || act.Host > hosts:
		return d.wrong(node, join(key, "host"),
			"the value is %d; expected the number of one of the %d machines, or 0 for all",
			act.Host, hosts)
	case act.Do == doFault:
		if _, err := simulate.ParseFaults(act.Fault); err != nil {
			return d.wrong(node, join(key, "fault"), "%v", err)
		}
	case act.Fault != "":
		return d.wrong(node, join(key, "fault"), "the key is valid only with do: fault")
	case act.For == 0 && slices.Contains([]Doing{doSleep, doClockJump, doClockBack, doCutLine, doAgentClockJump,
		doAgentClockBack}, act.Do):
		return d.wrong(node, join(key, "for"), "the key is missing; expected %s", act.For.expects())
	}
	return nil
}

func setDefault[T comparable](at *T, otherwise T) {
	var none T
	if *at == none {
		*at = otherwise
	}
}

// valueOf returns the value of a dotted key in a mapping, or the mapping itself if it does not
// contain the key.
func valueOf(node *yaml.Node, key string) *yaml.Node {
	first, rest, _ := strings.Cut(key, ".")
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != first {
			continue
		}
		if rest == "" {
			return node.Content[i+1]
		}
		return valueOf(node.Content[i+1], rest)
	}
	return node
}
