package arrival

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"landfall/appliance/bmc"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/sentence"
	"landfall/ignition"
)

// Kind is the kind of the evidence of a finding.
type Kind string

// The kinds of findings.
const (
	KindRefusal Kind = "refusal" // a registration was refused
	KindRead    Kind = "read"    // a machine has read an image
	KindServer  Kind = "server"  // a server was booted by its BMC
	KindNothing Kind = "nothing" // no machine has read an infra-env's image
)

// Severity rates a finding.
type Severity string

// The severities, the most severe first.
const (
	Danger  Severity = "danger"  // the machine can't register without a correction
	Warning Severity = "warning" // the machine has probably stopped
	Info    Severity = "info"    // the machine is on its way
)

func (s Severity) rank() int { return slices.Index([]Severity{Danger, Warning, Info}, s) }

// Finding is one reason why a machine has not registered.
type Finding struct {
	Kind         Kind      `json:"kind"`
	Severity     Severity  `json:"severity"`
	Subject      string    `json:"subject"` // an address, or the name of a server or an infra-env
	InfraEnvID   string    `json:"infra_env_id,omitempty"`
	InfraEnvName string    `json:"infra_env_name,omitempty"`
	ServerID     string    `json:"bmc_id,omitempty"`
	Sentence     string    `json:"sentence"`
	Since        time.Time `json:"since"`
	Advice       string    `json:"advice"`
}

// InfraEnv is an infra-env with the evidence about its image.
type InfraEnv struct {
	ID, Name string
	Reads    []Read
	Hosts    int // that have registered
	// InstalledCluster is the name of its cluster, if that is installed and accepts no new hosts.
	InstalledCluster string
}

// Read is the read of an infra-env's image by a client from which no host has registered since.
type Read struct {
	Client      string
	First, Last time.Time
	// Reading and Finished describe the state of the read; a read with neither has stopped.
	Reading, Finished bool
	// Registered is true if a host of the infra-env has registered since.
	Registered bool
	Sentence   string
}

// Evidence is what the appliance knows about the machines of a site.
type Evidence struct {
	InfraEnvs []InfraEnv
	Servers   []*bmc.Server
	Refusals  []Refusal
	Started   time.Time // since when reads and refusals are recorded
}

// Findings returns the findings, the most severe first, then the latest first.
func (e Evidence) Findings() []Finding {
	findings := []Finding{}
	infraEnvs := make(map[string]InfraEnv)
	for _, env := range e.InfraEnvs {
		infraEnvs[env.ID] = env
	}
	for _, refusal := range e.Refusals {
		findings = append(findings, refusal.finding(infraEnvs[refusal.InfraEnvID]))
	}
	for _, server := range e.Servers {
		if finding, ok := serverFinding(server); ok {
			finding.InfraEnvName = infraEnvs[finding.InfraEnvID].Name
			findings = append(findings, finding)
		}
	}
	for _, env := range e.InfraEnvs {
		findings = append(findings, env.findings(e.Started)...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), b.Since.Compare(a.Since))
	})
	return findings
}

// Temporary reports whether the cluster of the machine accepts no hosts at present.
func (r Refusal) Temporary() bool {
	return r.Status == http.StatusServiceUnavailable || r.Status == http.StatusConflict
}

func (r Refusal) finding(infraEnv InfraEnv) Finding {
	times := "once"
	if r.Count > 1 {
		times = fmt.Sprintf("%d times", r.Count)
	}
	finding := Finding{
		Kind: KindRefusal, Severity: Danger, Subject: r.Address, InfraEnvID: r.InfraEnvID, InfraEnvName: infraEnv.Name,
		Since: r.First,
		Sentence: fmt.Sprintf("The machine %s tried to register %s and was refused: %s", r.Address, times,
			sentence.Capitalize(strings.TrimRight(r.Reason, ".")+".")),
	}
	switch {
	case r.Status == http.StatusNotFound:
		finding.Advice = "The machine booted an old image, or the image of another appliance. Download the current " +
			"image of an infra-env of this site, and boot the machine from it."
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		finding.Advice = "The machine's image has no valid token. Download the current image of the infra-env, and " +
			"boot the machine from it."
	case r.Status == http.StatusServiceUnavailable && strings.Contains(r.Reason, lifecycle.NoNewHosts) &&
		infraEnv.InstalledCluster != "":
		finding.Advice = fmt.Sprintf("The cluster %[1]s is installed. Let the machine join it with landfall cluster "+
			"add-hosts %[1]s. The agent of the machine tries again.", infraEnv.InstalledCluster)
	case r.Temporary():
		finding.Advice = "The agent of the machine tries again. Wait until the installation has ended, or reset the " +
			"cluster."
	default:
		finding.Advice = "Correct what the sentence names. Then restart the agent: systemctl restart agent."
	}
	return finding
}

// serverFinding returns the finding about a server that was booted and from which no host has
// registered.
func serverFinding(s *bmc.Server) (Finding, bool) {
	finding := Finding{Kind: KindServer, Severity: Info, Subject: s.Name, InfraEnvID: s.InfraEnvID, ServerID: s.ID,
		Since: s.Created}
	if s.Booted != nil {
		if s.Booted.Host != nil {
			return finding, false
		}
		finding.InfraEnvID, finding.Since = cmp.Or(s.Booted.InfraEnvID, finding.InfraEnvID), s.Booted.At
	}
	switch {
	case s.Error != nil:
		finding.Severity, finding.Since = Danger, s.Error.Since
		finding.Sentence = fmt.Sprintf("The BMC of %s reports an error: %s", s.Name, s.Error.Message)
		finding.Advice = "Correct the cause. The page Servers shows the requests to this BMC with its responses."
	case s.Booted == nil && s.State != bmc.Provisioning:
		return finding, false
	case s.Booted == nil:
		finding.Sentence = fmt.Sprintf("The server %s is being booted from the image.", s.Name)
		finding.Advice = "Wait until the server has started."
	case s.Power == bmc.PowerOff:
		finding.Severity = Warning
		finding.Sentence = fmt.Sprintf("The server %s was booted from the image, but its power is off now.", s.Name)
		finding.Advice = "Boot the server again."
	case (s.Media == nil || !s.Media.Inserted) && !bootsByHTTP(s):
		finding.Severity = Warning
		finding.Sentence = fmt.Sprintf("The server %s was booted, but its virtual drive no longer has the image. No "+
			"host has registered from it.", s.Name)
		finding.Advice = "Boot the server again. If it fails again, read the console of the server."
	default:
		finding.Sentence = fmt.Sprintf("The server %s was booted from the image. No host has registered from it yet.",
			s.Name)
		finding.Advice = "A start takes some minutes. If it takes longer than 15 minutes, read the console of the " +
			"server: check its boot order and its network."
	}
	return finding, true
}

// bootsByHTTP reports whether the firmware of a server fetches the image, without a virtual drive.
func bootsByHTTP(s *bmc.Server) bool {
	address, err := bmc.ParseAddress(s.Address)
	return err == nil && address.HTTPBoot
}

// findings returns the findings about the reads of an infra-env's image.
func (v InfraEnv) findings(started time.Time) []Finding {
	finding := Finding{InfraEnvID: v.ID, InfraEnvName: v.Name}
	if len(v.Reads) == 0 {
		if v.Hosts > 0 {
			return nil
		}
		finding.Kind, finding.Severity, finding.Subject, finding.Since = KindNothing, Info, v.Name, started
		finding.Sentence = fmt.Sprintf("No machine has read the image of infra-env %s since the appliance started.",
			v.Name)
		finding.Advice = "Boot a machine from the image. If it was booted already, check that its BMC or its " +
			"network boot can open the URL of the image, and that the machine boots from it."
		return []Finding{finding}
	}
	var findings []Finding
	for _, read := range v.Reads {
		if read.Registered {
			continue
		}
		f := finding
		f.Kind, f.Subject, f.Since, f.Sentence = KindRead, read.Client, read.Last, read.Sentence
		switch {
		case read.Reading:
			f.Severity, f.Since = Info, read.First
			f.Advice = "Wait until the machine has read the image."
		case read.Finished:
			f.Severity = Warning
			f.Advice = "The machine has the image, but its agent has not reached the appliance. Try the lines below " +
				"on the console of the machine."
		default:
			f.Severity = Warning
			f.Advice = "Read the console of the machine, and boot it again."
		}
		findings = append(findings, f)
	}
	return findings
}

// Line is a shell command for a machine that does not register.
type Line struct {
	Purpose string `json:"purpose"`
	Command string `json:"command"`
}

// Lines returns the commands to try on a machine that has booted an image, with the URL under which
// hosts reach the appliance.
func Lines(url string) []Line {
	authority := ""
	if strings.HasPrefix(url, "https:") {
		authority = "--cacert " + ignition.ServiceCAPath + " "
	}
	return []Line{
		{Purpose: "Does the machine reach the appliance? The answer must be 200.",
			Command: "curl -sS " + authority + "-o /dev/null -w '%{http_code}\\n' " + strings.TrimSuffix(url, "/") +
				"/api/landfall/v1/login"},
		{Purpose: "Which addresses and routes does the machine have?", Command: "ip -brief address; ip route"},
		{Purpose: "What does the agent report?", Command: "sudo journalctl -u agent -n 50 --no-pager"},
	}
}
