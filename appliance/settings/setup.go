package settings

import (
	"fmt"
	"slices"
	"strings"

	"landfall/appliance/doctor"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
)

// Setup is what a site needs before its first installation.
type Setup struct {
	Complete bool   `json:"complete"`
	Lines    []Line `json:"lines"`
}

// Line is one thing that a site needs.
type Line struct {
	ID     string `json:"id"`
	State  State  `json:"state"`
	Result string `json:"result"`           // a sentence: what is
	Advice string `json:"advice,omitempty"` // a sentence: what to do
	// Key is the key in the configuration file that the advice is about, if no setting helps.
	Key string `json:"key,omitempty"`
}

// Setup returns the state of everything that an installation needs.
func (s *Service) Setup() (*Setup, error) {
	settings, err := s.Show()
	if err != nil {
		return nil, err
	}
	hosts, err := s.hasHosts()
	if err != nil {
		return nil, err
	}
	report, err := s.diagnosis()
	if err != nil {
		return nil, err
	}
	releases, isos := releaseLine(settings.Releases), s.imageLine(settings.Releases)
	setup := &Setup{Complete: true, Lines: []Line{
		s.urlLine(settings.URL, hosts), releases, isos, s.mirrorLine(releases.State), secretLine(settings.PullSecret),
		keyLine(settings.SSHPublicKey), timeLine(settings.NTPSources), doctorLine(report),
	}}
	for _, line := range setup.Lines {
		setup.Complete = setup.Complete && (line.State == StateDone || line.State == StateOptional)
	}
	return setup, nil
}

// urlLine describes the URL for hosts. A URL that only this machine reaches suffices for hosts on
// it, as in the demo.
func (s *Service) urlLine(shown URL, hosts bool) Line {
	line := Line{ID: "url", State: StateDone, Result: "Hosts reach the appliance at " + shown.Value + "."}
	if shown.RestartNeeded {
		line.State = StateMissing
		line.Result = "Hosts reach the appliance at " + s.URL + " until it restarts, and at " + shown.Value + " " +
			"after that."
		line.Advice = "Restart the appliance."
		return line
	}
	switch {
	case doctor.OnLoopback(shown.Value) && hosts:
		line.Result = "Hosts on this machine reach the appliance at " + shown.Value + "; others do not."
	case doctor.OnLoopback(shown.Value):
		line.State = StateFailed
		line.Advice, line.Key = adviceForURL(shown)
		line.Result = "The URL for hosts is " + shown.Value + ", which only this machine reaches."
		if shown.LocalListener != "" {
			line.Result = "The appliance listens on " + shown.LocalListener + ", which only this machine reaches."
		}
		return line
	}
	switch known, err := s.reachable(); {
	case !known:
		line.State, line.Result = StateChecking, "The appliance connects to "+shown.Value+" to check it."
	case err != nil:
		line.State = StateFailed
		line.Advice, line.Key = adviceForURL(shown)
		line.Result = "The URL for hosts, " + shown.Value + ", does not answer: " + sentence.Ending(err)
	}
	return line
}

// adviceForURL says what makes hosts reach the appliance, and the key of the configuration file for
// it, if no setting helps.
func adviceForURL(shown URL) (advice, key string) {
	switch {
	case shown.LocalListener != "":
		return shown.Advice, "listen"
	case shown.Fixed:
		return "Change the key url in the configuration file and restart the appliance.", "url"
	}
	return "Set a URL that hosts can reach in the settings, or with landfall settings set --url-for-hosts URL.", ""
}

func (r Release) name() string { return r.OpenshiftVersion + " (" + r.CPUArchitecture + ")" }

func releaseLine(releases []Release) Line {
	line := Line{ID: "release", State: StateMissing, Result: "The site has no OpenShift release.",
		Advice: "Add one in the settings, or with landfall settings release add PULLSPEC."}
	if len(releases) == 0 {
		return line
	}
	var ready, checking []string
	var failed []Release
	for _, release := range releases {
		switch release.State {
		case StateFailed:
			failed = append(failed, release)
		case StateChecking:
			checking = append(checking, release.name())
		default:
			ready = append(ready, release.name())
		}
	}
	switch {
	case len(failed) > 0:
		line.State, line.Result = StateFailed, "Release "+failed[0].name()+" can't be read: "+failed[0].Message
		line.Advice = "Check the registry, the mirror rules and the pull secret, or remove the release."
	case len(checking) > 0:
		line.State, line.Advice = StateChecking, ""
		line.Result = "The appliance reads release " + strings.Join(checking, ", ") + "."
	default:
		line.State, line.Advice = StateDone, ""
		line.Result = "The site has release " + strings.Join(ready, ", ") + "."
	}
	return line
}

func (s *Service) imageLine(releases []Release) Line {
	line := Line{ID: "os-image", State: StateMissing, Advice: "Upload the live ISO of the release, give its URL, " +
		"or take it out of the release payload: on the page under OS images, or with landfall iso import."}
	if len(releases) == 0 {
		line.Result = "Without a release, no live ISO is needed yet."
		line.Advice = "Add a release first."
		return line
	}
	var present, missing []string
	for _, release := range releases {
		if s.CheckImage(release.OpenshiftVersion, release.CPUArchitecture) != nil {
			missing = append(missing, release.name())
			continue
		}
		present = append(present, release.name())
	}
	if len(missing) > 0 {
		line.Result = "No usable live ISO for " + strings.Join(missing, ", ") + "."
		return line
	}
	line.State, line.Advice = StateDone, ""
	line.Result = "There is a live ISO for " + strings.Join(present, ", ") + "."
	return line
}

func (s *Service) mirrorLine(releases State) Line {
	rules := s.Rules(mirror.Level{})
	line := Line{ID: "mirror", State: StateDone}
	if rules.Empty() {
		line.State = StateOptional
		line.Result = "The site has no mirror rules: images come from the registries that the releases name."
		line.Advice = "If the site has a mirror registry, import its rules and its CA: on the page under Mirror, or " +
			"with landfall mirror import PATH."
		if releases == StateFailed {
			line.State = StateMissing
		}
		return line
	}
	for _, hole := range rules.Holes() {
		if hole.Grave {
			line.State, line.Result = StateFailed, "With the mirror rules, installations fail. "+hole.Text
			line.Advice = "Correct the rules and import them again; landfall mirror show lists all problems."
			return line
		}
	}
	line.Result = fmt.Sprintf("The site has %s and %s.", sentence.Count(len(rules.List()), "mirror rule"),
		sentence.Count(len(rules.Authorities()), "CA"))
	return line
}

func secretLine(secret PullSecret) Line {
	if !secret.Set {
		return Line{ID: "pull-secret", State: StateMissing, Result: "The site has no pull secret.",
			Advice: "Set it in the settings, or with landfall settings set --pull-secret-file FILE. Without it, " +
				"each cluster needs its own."}
	}
	line := Line{ID: "pull-secret", State: StateDone,
		Result: "The site's pull secret has credentials for " + strings.Join(secret.Registries, ", ") + "."}
	if len(secret.Registries) == 0 {
		line.Result = "The site's pull secret has no credentials, so images are pulled anonymously."
	}
	return line
}

func keyLine(key Text) Line {
	if key.Value == "" {
		return Line{ID: "ssh-key", State: StateOptional, Result: "The site has no SSH key.",
			Advice: "Set one to log in to hosts when something fails: in the settings, or with landfall settings set " +
				"--ssh-key-file FILE."}
	}
	keys := slices.DeleteFunc(strings.Split(key.Value, "\n"), func(line string) bool {
		line = strings.TrimSpace(line)
		return line == "" || strings.HasPrefix(line, "#")
	})
	return Line{ID: "ssh-key", State: StateDone,
		Result: fmt.Sprintf("New clusters and images get %s of the site.", sentence.Count(len(keys), "SSH key"))}
}

func timeLine(sources List) Line {
	if len(sources.Value) == 0 {
		return Line{ID: "time", State: StateOptional,
			Result: "The site has no time servers; hosts use those of DHCP or of their system.",
			Advice: "If hosts reach no time server on their own, set one in the settings, or with landfall " +
				"settings set --ntp SERVER."}
	}
	return Line{ID: "time", State: StateDone, Result: "Hosts take the time from " +
		strings.Join(sources.Value, ", ") + "."}
}

func doctorLine(report *doctor.Report) Line {
	line := Line{ID: "doctor", State: StateMissing, Result: "The doctor has not checked the site yet.",
		Advice: "Run it on the page under Doctor, or with landfall doctor."}
	if report == nil {
		return line
	}
	at := report.At.UTC().Format("2006-01-02 15:04 UTC")
	var red []doctor.Finding
	for _, finding := range report.Findings {
		if finding.Status == doctor.Red {
			red = append(red, finding)
		}
	}
	if len(red) == 0 {
		line.State, line.Advice = StateDone, ""
		line.Result = "The doctor found nothing at " + at + " that prevents an installation."
		return line
	}
	line.State = StateFailed
	line.Result = fmt.Sprintf("The doctor found %s at %s; the first is about %s: %s",
		sentence.Count(len(red), "problem"), at, red[0].Subject, sentence.Close(red[0].Result))
	line.Advice = "Read the report under Doctor or with landfall doctor, correct the problems, and run the doctor " +
		"again."
	return line
}
