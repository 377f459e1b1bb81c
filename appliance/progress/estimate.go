package progress

import (
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
)

// Past is the record of a finished installation. Durations are in seconds. The record does not name
// the cluster, because it stays when the cluster is deleted.
type Past struct {
	Version string    `json:"openshift_version"`
	Shape   Shape     `json:"shape"`
	Ended   time.Time `json:"ended_at"`
	Seconds float64   `json:"seconds"`
	// Phases are by name. Stages are by role and name: the slowest host of each role counts.
	Phases map[string]float64            `json:"phases"`
	Stages map[string]map[string]float64 `json:"stages"`
}

// Shape is the kind of a cluster. Only installations of the same shape are compared.
type Shape string

// Shapes of clusters.
const (
	SingleNode Shape = "single-node"
	Several    Shape = "several" // hosts
)

func shapeOf(cluster *models.Cluster, hosts []*record.Host) Shape {
	if cluster.ControlPlaneCount == 1 || len(hosts) == 1 {
		return SingleNode
	}
	return Several
}

// Summarize returns the record of an installation that has succeeded.
func Summarize(p *Progress, shape Shape) *Past {
	past := &Past{Version: p.Version, Shape: shape, Ended: p.Ended,
		Seconds: p.Ended.Sub(p.Started).Seconds(), Phases: make(map[string]float64),
		Stages: make(map[string]map[string]float64)}
	for _, phase := range p.Phases {
		past.Phases[phase.Name] = phase.Seconds
	}
	for _, host := range p.Hosts {
		if host.State != Done {
			continue
		}
		stages := past.Stages[host.Role]
		if stages == nil {
			stages = make(map[string]float64)
			past.Stages[host.Role] = stages
		}
		for _, stage := range host.Stages {
			stages[stage.Name] = max(stages[stage.Name], stage.Seconds)
		}
	}
	return past
}

// span is a duration of several installations, in seconds.
type span struct{ median, longest float64 }

func spanOf(seconds []float64) span {
	if len(seconds) == 0 {
		return span{}
	}
	slices.Sort(seconds)
	return span{seconds[len(seconds)/2], seconds[len(seconds)-1]}
}

// usual holds the durations of similar installations.
type usual struct {
	installations     int
	shortest, longest float64
	phases            map[string]span
	stages            map[string]map[string]span // by role and name
}

func usualOf(past []*Past, shape Shape) usual {
	u := usual{phases: make(map[string]span), stages: make(map[string]map[string]span)}
	phases, stages := make(map[string][]float64), make(map[string]map[string][]float64)
	for _, one := range past {
		if one.Shape != shape {
			continue
		}
		if u.installations == 0 || one.Seconds < u.shortest {
			u.shortest = one.Seconds
		}
		u.installations, u.longest = u.installations+1, max(u.longest, one.Seconds)
		for name, seconds := range one.Phases {
			phases[name] = append(phases[name], seconds)
		}
		for role, ofRole := range one.Stages {
			if stages[role] == nil {
				stages[role] = make(map[string][]float64)
			}
			for name, seconds := range ofRole {
				stages[role][name] = append(stages[role][name], seconds)
			}
		}
	}
	for name, seconds := range phases {
		u.phases[name] = spanOf(seconds)
	}
	for role, ofRole := range stages {
		u.stages[role] = make(map[string]span)
		for name, seconds := range ofRole {
			u.stages[role][name] = spanOf(seconds)
		}
	}
	return u
}

// A running stage is late if it takes lateFactor times as long as the longest one before, and at
// least lateAfter longer.
const (
	lateFactor = 1.5
	lateAfter  = 60.0 // seconds
)

// apply adds the usual duration to a stage.
func (u usual) apply(stage *Stage, known span) {
	stage.Usual = known.median
	stage.Late = stage.State == Running && known.longest > 0 &&
		stage.Seconds > max(known.longest*lateFactor, known.longest+lateAfter)
}

// Estimate is the time that is left by earlier installations of this site.
type Estimate struct {
	Seconds float64 `json:"seconds"`
	// Installations is the number of similar installations; Shortest and Longest are the times that
	// they took, in seconds.
	Installations int     `json:"installations"`
	Shortest      float64 `json:"shortest_seconds"`
	Longest       float64 `json:"longest_seconds"`
}

// estimate returns the time that is left, or nil without similar installations. The hosts are
// installed at the same time, so the slowest one counts.
func estimate(p *Progress, u usual) *Estimate {
	if u.installations == 0 {
		return nil
	}
	slowest, left := 0.0, 0.0
	for _, host := range p.Hosts {
		slowest = max(slowest, leftOf(host.Stages))
	}
	for _, phase := range p.Phases {
		switch {
		case phase.Name == PhaseInstalling && phase.State != Waiting && phase.State != Done:
			left += slowest
		case phase.Name == PhaseFinalizing && phase.State != Waiting:
			left += max(slowest, rest(phase)) // hosts that the cluster does not need come later
		default:
			left += rest(phase)
		}
	}
	return &Estimate{Seconds: left, Installations: u.installations, Shortest: u.shortest, Longest: u.longest}
}

func leftOf(stages []Stage) float64 {
	left := 0.0
	for _, stage := range stages {
		left += rest(stage)
	}
	return left
}

// rest returns the usual time of a stage that has not passed yet.
func rest(stage Stage) float64 {
	switch stage.State {
	case Waiting, Running, Blocked:
		return max(0, stage.Usual-stage.Seconds)
	}
	return 0
}
