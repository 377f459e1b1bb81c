package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall/appliance/architecture"
	"landfall/appliance/config"
	"landfall/appliance/sentence"

	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/doctor"
	"landfall/appliance/mirror"
	"landfall/appliance/simulate"
	"landfall/ignition"
	"landfall/web/api"
	"landfall/web/console"
	"landfall/web/problem"
)

const (
	// rehearsalTime bounds a rehearsal; what takes longest is openshift-install, which has a time
	// of its own.
	rehearsalTime = 20 * time.Minute
	// stillTime is how long simulated hosts that are not ready may say the same: they report
	// whatever they can within seconds.
	stillTime = 20 * time.Second
	// rehearsalLook is the time between two looks at the copy.
	rehearsalLook    = 100 * time.Millisecond
	rehearsalsKept   = 8
	rehearsalsFolder = "rehearsals"
	rehearsalSpeed   = 1000
)

// rehearsals plays installations of clusters: everything but the boot. Each is played on a copy of
// the cluster in an appliance of its own, which lies in a folder that goes away with it, listens on
// this machine alone and tells AMS nothing.
type rehearsals struct {
	appliance *Appliance
	running   sync.WaitGroup
	ctx       context.Context
	cancel    context.CancelFunc

	mu   sync.Mutex
	list []*console.Rehearsal // the newest first
}

// newRehearsals removes what a process that was killed in a rehearsal left.
func newRehearsals(a *Appliance) (*rehearsals, error) {
	r := &rehearsals{appliance: a}
	if err := os.RemoveAll(filepath.Join(a.config.DataDir, rehearsalsFolder)); err != nil {
		return nil, fmt.Errorf("remove what is left of a rehearsal: %w", err)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// close ends the rehearsal that runs and waits for it.
func (r *rehearsals) close() {
	r.cancel()
	r.running.Wait()
}

// Start begins a rehearsal in the background. There is one at a time.
func (r *rehearsals) Start(_ context.Context, clusterID string,
	numbers console.RehearsalRequest) (*console.Rehearsal, error) {
	cluster, err := r.appliance.engine.Cluster(clusterID)
	if err != nil {
		return nil, api.Problem(err)
	}
	if status := *cluster.Status; status == models.ClusterStatusInstalled || status == models.ClusterStatusAddingHosts {
		return nil, problem.Conflict("Cluster %s is %s; there is no installation of it to rehearse.", cluster.Name,
			status)
	}
	s, err := r.shapeOf(cluster, numbers)
	if err != nil {
		return nil, api.Problem(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) > 0 && r.list[0].State == "running" {
		return nil, problem.Conflict("A rehearsal of cluster %s is under way; wait for its end.", r.list[0].Cluster)
	}
	played := &console.Rehearsal{
		ID: uuid.NewString(), ClusterID: clusterID, Cluster: cluster.Name, Release: cluster.OpenshiftVersion,
		State: "running", Started: time.Now().UTC(),
		Shape: fmt.Sprintf("%s, by %s", plural(len(s.hosts), "host"), s.from), Steps: []console.RehearsalStep{},
		NotProven: []string{
			"that machines boot the image, their cards, disks and firmware", "static networks on real cards",
			"what operators do in the running cluster",
		},
	}
	r.list = append([]*console.Rehearsal{played}, r.list...)
	r.list = r.list[:min(len(r.list), rehearsalsKept)]
	r.running.Go(func() {
		ctx, cancel := context.WithTimeoutCause(r.ctx, rehearsalTime, fmt.Errorf("the rehearsal was not done after %s",
			rehearsalTime))
		defer cancel()
		(&play{rehearsals: r, shown: played, cluster: cluster, shape: s}).run(ctx)
	})
	return snapshot(played), nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Rehearsal returns a rehearsal as it is now.
func (r *rehearsals) Rehearsal(clusterID, id string) (*console.Rehearsal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, played := range r.list {
		if played.ID == id && played.ClusterID == clusterID {
			return snapshot(played), nil
		}
	}
	return nil,
		problem.NotFound("There is no rehearsal %s of cluster %s; the last %d since the start of the appliance are "+
			"kept.", id, clusterID, rehearsalsKept)
}

func snapshot(played *console.Rehearsal) *console.Rehearsal {
	shown := *played
	shown.Steps = append([]console.RehearsalStep{}, played.Steps...)
	if shown.State == "running" {
		shown.Seconds = time.Since(shown.Started).Seconds()
	}
	return &shown
}

// play is one rehearsal under way.
type play struct {
	*rehearsals
	shown   *console.Rehearsal
	cluster *models.Cluster
	shape   *shape

	copy *Appliance
	env  string // of the copy
}

// stepError is why a rehearsal goes no further, and what a person does about it.
type stepError struct{ said, do string }

func (e *stepError) Error() string { return e.said }

// run plays the steps until one fails; the site is looked at in any case.
func (p *play) run(ctx context.Context) {
	log := p.appliance.log.With("rehearsal", p.shown.ID, "cluster", p.shown.ClusterID)
	log.Info("A rehearsal begins.", "hosts", len(p.shape.hosts))
	p.step("site", func() (string, error) { return p.site(ctx) })
	err := p.inCopy(ctx, func(ctx context.Context) error { return p.steps(ctx) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.shown.Steps = append(p.shown.Steps, console.RehearsalStep{Name: "rehearsal", Verdict: console.StepFailed,
			Said: sentence.Close(err.Error())})
	}
	p.shown.State, p.shown.Doing, p.shown.Seconds, p.shown.Passed = "done", "", time.Since(p.shown.Started).Seconds(),
		true
	for _, step := range p.shown.Steps {
		p.shown.Passed = p.shown.Passed && step.Verdict != console.StepFailed
	}
	log.Info("A rehearsal ended.", "passed", p.shown.Passed, "seconds", p.shown.Seconds)
}

// step plays one step and tells whether it went well.
func (p *play) step(name string, do func() (said string, err error)) bool {
	begin := time.Now()
	p.mu.Lock()
	p.shown.Doing = name
	p.mu.Unlock()
	said, err := do()
	done := console.RehearsalStep{Name: name, Verdict: console.StepProven, Said: said}
	if err != nil {
		done.Verdict, done.Said = console.StepFailed, sentence.Close(err.Error())
		if told, ok := errors.AsType[*stepError](err); ok {
			done.Said, done.Do = told.said, told.do
		}
	} else if warning, ok := strings.CutPrefix(said, warned); ok {
		done.Verdict, done.Said = console.StepWarning, warning
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	done.Seconds = time.Since(begin).Seconds()
	p.shown.Steps = append(p.shown.Steps, done)
	return err == nil
}

// warned begins what a step says that went well but for something.
const warned = "! "

// site looks at the site as the doctor does.
func (p *play) site(ctx context.Context) (string, error) {
	report, err := view{p.appliance}.Examine(ctx,
		console.Examination{ClusterID: p.shown.ClusterID})
	if err != nil {
		return "", err
	}
	counts := map[doctor.Verdict]int{}
	var worst []string
	do := "Look at it with landfall doctor --cluster " + p.shown.ClusterID + "."
	for _, finding := range report.Findings {
		if counts[finding.Verdict]++; finding.Verdict == doctor.Red || finding.Verdict == doctor.Amber {
			worst = append(worst, finding.Subject+": "+finding.Answered)
		}
		if finding.Verdict == doctor.Red && finding.Do != "" && counts[doctor.Red] == 1 {
			do = finding.Do
		}
	}
	said := fmt.Sprintf("Names, clocks, registries, addresses: %d good, %d can't be told from here, %d doubtful, %d "+
		"bad.", counts[doctor.Green], counts[doctor.Unknown], counts[doctor.Amber], counts[doctor.Red])
	if len(worst) > 0 {
		said += " " + sentence.Close(strings.Join(worst[:min(len(worst), 3)], "; "))
	}
	switch report.Verdict {
	case doctor.Red:
		return "", &stepError{said, do}
	case doctor.Amber:
		return warned + said, nil
	}
	return said, nil
}

// inCopy runs what is done with an appliance of its own that goes away afterwards.
func (p *play) inCopy(ctx context.Context, do func(context.Context) error) (err error) {
	folder := filepath.Join(p.appliance.config.DataDir, rehearsalsFolder)
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	config, err := p.config(filepath.Join(folder, p.shown.ID))
	if err != nil {
		return err
	}
	log := p.appliance.log.With("rehearsal", p.shown.ID)
	if p.copy, err = New(ctx, config, log, p.appliance.version); err != nil {
		return fmt.Errorf("start an appliance for the rehearsal: %w", err)
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- p.copy.Run(runCtx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	return do(ctx)
}

// config is the appliance's with nothing that reaches further than this machine and the site's
// registry.
func (p *play) config(dir string) (config.Config, error) {
	own := p.appliance.config
	own.Listen, own.BootListen, own.URL, own.DataDir = "127.0.0.1:0", "", nil, dir
	own.AMS, own.Kubernetes = config.AMS{}, config.Kubernetes{}
	images, err := p.appliance.images.List()
	if err != nil {
		return own, err
	}
	own.OSImages = nil
	for _, image := range images {
		if image.Path != "" {
			own.OSImages = append(own.OSImages, config.OSImage{
				OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: architecture.Of(image.CPUArchitecture).RPM(),
				Path: image.Path, SHA256: image.SHA256,
			})
		}
	}
	return own, nil
}

// steps are those that need the copy.
func (p *play) steps(ctx context.Context) error {
	if !p.step("description", func() (string, error) { return p.describe(ctx) }) || !p.step("discovery image",
		func() (string, error) { return p.image(ctx) }) {
		return nil
	}
	groupCtx, dismiss := context.WithCancel(ctx)
	group := &simulate.HostGroup{
		URL: p.copy.LocalURL(), InfraEnvID: p.env, Count: len(p.shape.hosts), Speed: rehearsalSpeed,
		Planned: p.shape.hosts, Network: p.shape.network,
		Resolve: resolve, KeepFailed: true,
		Hardware: simulate.Hardware{Architecture: architecture.Of(p.cluster.CPUArchitecture).RPM()},
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(groupCtx) }()
	defer func() {
		dismiss()
		<-ended
	}()
	if p.step("hosts", func() (string, error) { return p.ready(ctx) }) && p.step("mirror",
		func() (string, error) { return p.prove(ctx) }) &&
		p.step("openshift-install", func() (string, error) { return p.prepare(ctx) }) &&
		p.step("generated files", p.files) {
		p.step("installation", func() (string, error) { return p.install(ctx) })
	}
	return nil
}

// resolve asks the DNS of this machine.
func resolve(ctx context.Context, name string) []netip.Addr {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses
}

// describe copies the cluster with its mirror rules, and says what the hosts are to be.
func (p *play) describe(ctx context.Context) (said string, err error) {
	if p.env, err = p.copy.engine.CopyCluster(ctx, p.appliance.engine, p.shown.ClusterID); err != nil {
		return "", err
	}
	imports, err := p.appliance.rules.Imports()
	if err != nil {
		return "", err
	}
	for _, imported := range imports {
		level := imported.Level
		switch {
		case level.InfraEnv != "":
			env, err := p.appliance.engine.InfraEnv(level.InfraEnv)
			if err != nil || env.ClusterID.String() != p.shown.ClusterID {
				continue
			}
			level.InfraEnv = p.env
		case level != mirror.Level{} && level.Cluster != p.shown.ClusterID:
			continue
		}
		if err := p.copy.mirror.Import(ctx, level, imported.Name, &imported.Import); err != nil {
			return "", err
		}
	}
	p.copy.abiHosts.Expect(p.env, p.shown.ClusterID, p.shape.wanted)
	return fmt.Sprintf("The cluster is described for OpenShift %s on %s.", p.cluster.OpenshiftVersion,
		*p.cluster.Platform.Type), nil
}

// image makes the discovery image, without its bytes.
func (p *play) image(ctx context.Context) (string, error) {
	recipe, err := p.copy.engine.Recipe(ctx, p.env)
	if err != nil {
		return "", err
	}
	base, err := p.copy.images.Find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	for err != nil { // the copy opens its images in the background
		states, stateErr := p.copy.images.states()
		if stateErr != nil || !opening(states) || !p.pause(ctx) {
			return "", errors.Join(err, stateErr)
		}
		base, err = p.copy.images.Find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	}
	return fmt.Sprintf("The config of %d KiB fits %s.", len(recipe.Ignition)>>10, base.VolumeID()), nil
}

func opening(states []console.OSImage) bool {
	return slices.ContainsFunc(states, func(state console.OSImage) bool { return state.State == "fetching" })
}

// pause waits until the next look, and tells whether the rehearsal goes on.
func (p *play) pause(ctx context.Context) bool {
	timer := time.NewTimer(rehearsalLook)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// until looks at the copy until it is in a state, or can't come to it.
func (p *play) until(ctx context.Context, yes func(*models.Cluster) (bool, error)) error {
	for {
		cluster, err := p.copy.engine.Cluster(p.shown.ClusterID)
		if err != nil {
			return err
		}
		if done, err := yes(cluster); done || err != nil {
			return err
		}
		if !p.pause(ctx) {
			return p.stuck(cluster)
		}
	}
}

// stuck says what a cluster that does not go on waits for: in its own words, and once each what its
// hosts say.
func (p *play) stuck(cluster *models.Cluster) error {
	said := []string{conv.Value(cluster.StatusInfo)}
	for _, host := range cluster.Hosts {
		if info := conv.Value(host.StatusInfo); len(said) < 4 && *host.Status != models.HostStatusKnown &&
			!slices.Contains(said, info) {
			said = append(said, info)
		}
	}
	return &stepError{strings.Join(said, " "), "Change what is said above, and rehearse again."}
}

func (p *play) ready(ctx context.Context) (string, error) {
	last, since := "", time.Now()
	err := p.until(ctx, func(c *models.Cluster) (bool, error) {
		known := 0
		for _, host := range c.Hosts {
			if *host.Status == models.HostStatusKnown {
				known++
			}
		}
		if now := p.stuck(c).Error(); now != last {
			last, since = now, time.Now()
		}
		if ready := known == len(p.shape.hosts) && *c.Status == models.ClusterStatusReady; ready ||
			time.Since(since) < stillTime {
			return ready, nil
		}
		return false, p.stuck(c)
	})
	return fmt.Sprintf("%s booted, registered and passed all validations, with names from this machine's DNS.",
		sentenceStart(plural(len(p.shape.hosts), "host"))), err
}

func sentenceStart(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// prove asks the site's registry for every image.
func (p *play) prove(ctx context.Context) (string, error) {
	source, err := p.copy.engine.InstallSource(p.shown.ClusterID)
	if err != nil {
		return "", err
	}
	unshown, err := p.copy.engine.PrivateFields(p.shown.ClusterID)
	if err != nil {
		return "", err
	}
	proof, err := p.copy.proofs.ProveMirror(ctx, source, func(int, int) {})
	switch {
	case err != nil:
		return "", err
	case proof.Images == 0:
		return warned + "The release does not come from a mirror, and nothing of it was proven.", nil
	case !proof.Complete && unshown.MirrorGapsAccepted:
		return warned + proof.Summary + " It is accepted.", nil
	case !proof.Complete:
		return "", &stepError{proof.Summary, "landfall mirror prove --cluster " + p.shown.ClusterID +
			" --list list.txt writes what to bring."}
	}
	return fmt.Sprintf("All of %d images, with every layer, are in the mirror.", proof.Images), nil
}

// prepare presses Install and waits for what the release's installer generates.
func (p *play) prepare(ctx context.Context) (string, error) {
	if _, err := p.copy.engine.InstallCluster(ctx, p.shown.ClusterID); err != nil {
		return "", err
	}
	err := p.until(ctx, func(c *models.Cluster) (bool, error) {
		switch *c.Status {
		case models.ClusterStatusPreparingForInstallation:
			return false, nil
		case models.ClusterStatusReady, models.ClusterStatusInsufficient, models.ClusterStatusError:
			return false, &stepError{c.LastInstallationPreparation.Reason, "Change what it names, and rehearse again."}
		}
		return true, nil
	})
	return "The installer of the release took the install-config and the manifests; the hosts have the release's " +
		"images.", err
}

// files looks at what the installer generated and the appliance edited.
func (p *play) files() (string, error) {
	names, err := p.copy.engine.FileNames(p.shown.ClusterID, "")
	if err != nil {
		return "", err
	}
	configs := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".ign") {
			continue
		}
		file, _, err := p.copy.engine.OpenGenerated(p.shown.ClusterID, name)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(file)
		if err = errors.Join(err, file.Close()); err == nil {
			err = ignition.Validate(text)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		configs++
	}
	return fmt.Sprintf("%s are valid, one for each host among them.",
		sentenceStart(plural(configs, "ignition config"))), nil
}

func (p *play) install(ctx context.Context) (string, error) {
	err := p.until(ctx, func(c *models.Cluster) (bool, error) {
		if *c.Status == models.ClusterStatusError || *c.Status == models.ClusterStatusCancelled {
			return false, p.stuck(c)
		}
		return *c.Status == models.ClusterStatusInstalled, nil
	})
	return "The simulated hosts pulled the installer's image and went through all stages; the cluster was installed.",
		err
}
