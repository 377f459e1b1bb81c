package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
	"landfall/appliance/doctor"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
	"landfall/appliance/sentence"
	"landfall/appliance/simulate"
	"landfall/ignition"
)

// run is one rehearsal.
type run struct {
	service *Service
	report  *Rehearsal // guarded by service.mu
	cluster *models.Cluster
	hosts   *simulatedHosts
	dir     string // data directory of the isolated appliance
}

// stepError is the error of a failed step, with advice.
type stepError struct{ message, advice string }

func (e *stepError) Error() string { return e.message }

// result is the result of a step that did not fail.
type result struct {
	message string
	warning bool
}

// run runs the steps until one fails. It always runs the check of the site.
func (r *run) run(ctx context.Context) {
	log := r.service.log.With("rehearsal", r.report.ID, "cluster", r.report.ClusterID)
	log.Info("Rehearsal started.", "hosts", len(r.hosts.hosts))
	r.step("site", func() (result, error) { return r.checkSite(ctx) })
	err := r.inAppliance(ctx, func(ctx context.Context, a *Appliance) error {
		return (&applianceRun{run: r, appliance: a}).steps(ctx)
	})
	r.service.mu.Lock()
	defer r.service.mu.Unlock()
	report := r.report
	if err != nil {
		report.Steps = append(report.Steps, Step{Name: "rehearsal", Result: Failed,
			Message: sentence.Close(err.Error())})
	}
	report.State, report.Doing, report.Seconds, report.Passed = done, "", time.Since(report.Started).Seconds(), true
	for _, step := range report.Steps {
		report.Passed = report.Passed && step.Result != Failed
	}
	log.Info("Rehearsal ended.", "passed", report.Passed, "seconds", report.Seconds)
}

// step runs one step, reports its result, and returns whether the step succeeded.
func (r *run) step(name string, do func() (result, error)) bool {
	begin := time.Now()
	r.service.mu.Lock()
	r.report.Doing = name
	r.service.mu.Unlock()
	outcome, err := do()
	step := Step{Name: name, Result: Proven, Message: outcome.message}
	if outcome.warning {
		step.Result = Warning
	}
	if err != nil {
		step.Result, step.Message = Failed, sentence.Close(err.Error())
		if failed, ok := errors.AsType[*stepError](err); ok {
			step.Message, step.Advice = failed.message, failed.advice
		}
	}
	r.service.mu.Lock()
	defer r.service.mu.Unlock()
	step.Seconds = time.Since(begin).Seconds()
	r.report.Steps = append(r.report.Steps, step)
	return err == nil
}

// checkSite runs the doctor's checks of the site.
func (r *run) checkSite(ctx context.Context) (result, error) {
	report, err := r.service.options.Diagnose(ctx, r.report.ClusterID)
	if err != nil {
		return result{}, err
	}
	counts := map[doctor.Status]int{}
	var worst []string
	advice := "For details, run landfall doctor --cluster " + r.report.ClusterID + "."
	for _, finding := range report.Findings {
		if counts[finding.Status]++; finding.Status == doctor.Red || finding.Status == doctor.Amber {
			worst = append(worst, finding.Subject+": "+finding.Result)
		}
		if finding.Status == doctor.Red && finding.Advice != "" && counts[doctor.Red] == 1 {
			advice = finding.Advice
		}
	}
	message := fmt.Sprintf("Names, clocks, registries, addresses: %d passed, %d unknown, %s, %d failed.",
		counts[doctor.Green], counts[doctor.Unknown], sentence.Count(counts[doctor.Amber], "warning"),
		counts[doctor.Red])
	if len(worst) > 0 {
		message += " " + sentence.Close(strings.Join(worst[:min(len(worst), 3)], "; "))
	}
	if report.Status == doctor.Red {
		return result{}, &stepError{message, advice}
	}
	return result{message, report.Status == doctor.Amber}, nil
}

// inAppliance starts an isolated appliance, calls do, stops the appliance and removes its data.
func (r *run) inAppliance(ctx context.Context, do func(context.Context, *Appliance) error) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(r.service.options.Dir)) }()
	appliance, err := r.service.options.Start(ctx, r.dir, r.service.log.With("rehearsal", r.report.ID))
	if err != nil {
		return fmt.Errorf("start an appliance for the rehearsal: %w", err)
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- appliance.Run(runCtx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	return do(ctx, appliance)
}

// applianceRun is the part of a rehearsal in the isolated appliance.
type applianceRun struct {
	*run
	appliance *Appliance
	infraEnv  string // id; set by describe, the first step
}

// steps runs the steps in the isolated appliance.
func (r *applianceRun) steps(ctx context.Context) error {
	if !r.step("description", func() (result, error) { return r.describe(ctx) }) ||
		!r.step("discovery image", func() (result, error) { return r.checkImage(ctx) }) {
		return nil
	}
	hostsCtx, stop := context.WithCancel(ctx)
	hosts := &simulate.HostGroup{
		URL: r.appliance.URL, InfraEnvID: r.infraEnv, Count: len(r.hosts.hosts), Speed: speed,
		Planned: r.hosts.hosts, Network: r.hosts.network,
		Resolve: resolve, KeepFailed: true, Egress: r.appliance.Egress,
		Hardware: simulate.Hardware{Architecture: architecture.Of(r.cluster.CPUArchitecture).RPM()},
	}
	ended := make(chan error, 1)
	go func() { ended <- hosts.Run(hostsCtx) }()
	defer func() {
		stop()
		<-ended
	}()
	_ = r.step("hosts", func() (result, error) { return r.waitReady(ctx) }) &&
		r.step("mirror", func() (result, error) { return r.proveMirror(ctx) }) &&
		r.step("openshift-install", func() (result, error) { return r.prepare(ctx) }) &&
		r.step("generated files", r.checkFiles) &&
		r.step("installation", func() (result, error) { return r.waitInstalled(ctx) })
	return nil
}

// resolve resolves a name with this machine's DNS.
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

// describe copies the cluster with its mirror rules, and sets the names and roles of the hosts.
func (r *applianceRun) describe(ctx context.Context) (_ result, err error) {
	site := r.service
	if r.infraEnv, err = r.appliance.Engine.CopyCluster(ctx, site.engine, r.report.ClusterID); err != nil {
		return result{}, err
	}
	imports, err := site.options.MirrorImports()
	if err != nil {
		return result{}, err
	}
	for _, imported := range imports {
		level := imported.Level
		switch {
		case level.InfraEnv != "":
			env, err := site.engine.InfraEnv(level.InfraEnv)
			if err != nil || env.ClusterID.String() != r.report.ClusterID {
				continue
			}
			level.InfraEnv = r.infraEnv
		case level != mirror.Level{} && level.Cluster != r.report.ClusterID:
			continue
		}
		if err := r.appliance.ImportMirror(ctx, level, imported.Name, &imported.Import); err != nil {
			return result{}, err
		}
	}
	r.appliance.ExpectHosts(r.infraEnv, r.report.ClusterID, r.hosts.settings)
	return result{message: fmt.Sprintf("The cluster was copied; OpenShift %s, platform %s.", r.cluster.OpenshiftVersion,
		*r.cluster.Platform.Type)}, nil
}

// checkImage checks that the discovery image can be built.
func (r *applianceRun) checkImage(ctx context.Context) (result, error) {
	recipe, err := r.appliance.Engine.Recipe(ctx, r.infraEnv)
	if err != nil {
		return result{}, err
	}
	base, err := r.appliance.Bases.Find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	for err != nil { // the appliance opens its base images in the background
		images, listErr := r.appliance.Bases.List()
		if listErr != nil || !slices.ContainsFunc(images, osimage.Image.Pending) || !pause(ctx) {
			return result{}, errors.Join(err, listErr)
		}
		base, err = r.appliance.Bases.Find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	}
	return result{message: fmt.Sprintf("The discovery config (%d KiB) fits into %s.", len(recipe.Ignition)>>10,
		base.VolumeID())}, nil
}

// pause waits for pollInterval. It returns false if the rehearsal ends.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// poll reads the cluster periodically until reached returns true or an error.
func (r *applianceRun) poll(ctx context.Context, reached func(*models.Cluster) (bool, error)) error {
	for {
		cluster, err := r.appliance.Engine.Cluster(r.report.ClusterID)
		if err != nil {
			return err
		}
		if done, err := reached(cluster); done || err != nil {
			return err
		}
		if !pause(ctx) {
			return stuckError(cluster)
		}
	}
}

// stuckError returns the error of a cluster without progress. It contains the status of the cluster
// and each different status of its hosts.
func stuckError(cluster *models.Cluster) error {
	reasons := []string{conv.Value(cluster.StatusInfo)}
	for _, host := range cluster.Hosts {
		if info := conv.Value(host.StatusInfo); len(reasons) < 4 && *host.Status != models.HostStatusKnown &&
			!slices.Contains(reasons, info) {
			reasons = append(reasons, info)
		}
	}
	return &stepError{strings.Join(reasons, " "), "Correct these problems, and rehearse again."}
}

// waitReady waits until all hosts have booted and passed their validations.
func (r *applianceRun) waitReady(ctx context.Context) (result, error) {
	last, since := "", time.Now()
	err := r.poll(ctx, func(c *models.Cluster) (bool, error) {
		known := 0
		for _, host := range c.Hosts {
			if *host.Status == models.HostStatusKnown {
				known++
			}
		}
		if now := stuckError(c).Error(); now != last {
			last, since = now, time.Now()
		}
		if ready := known == len(r.hosts.hosts) && *c.Status == models.ClusterStatusReady; ready ||
			time.Since(since) < unchangedTimeout {
			return ready, nil
		}
		return false, stuckError(c)
	})
	return result{message: fmt.Sprintf("%s booted, registered and passed all validations, with names from this "+
		"machine's DNS.", sentence.Count(len(r.hosts.hosts), "host"))}, err
}

// proveMirror requests every image from the site's registry.
func (r *applianceRun) proveMirror(ctx context.Context) (result, error) {
	source, err := r.appliance.Engine.InstallSource(r.report.ClusterID)
	if err != nil {
		return result{}, err
	}
	private, err := r.appliance.Engine.PrivateFields(r.report.ClusterID)
	if err != nil {
		return result{}, err
	}
	proof, err := r.appliance.Prover.ProveMirror(ctx, source, func(int, int) {})
	switch {
	case err != nil:
		return result{}, err
	case proof.Images == 0:
		return result{"The release does not come from a mirror; its images were not checked.", true}, nil
	case !proof.Complete && private.MirrorGapsAccepted:
		return result{proof.Summary + " The gaps are accepted.", true}, nil
	case !proof.Complete:
		return result{}, &stepError{proof.Summary, "landfall mirror prove --cluster " + r.report.ClusterID +
			" --list list.txt lists the missing images."}
	}
	return result{message: fmt.Sprintf("The mirror contains all %d images with all layers.", proof.Images)}, nil
}

// prepare starts the installation and waits for the release's openshift-install.
func (r *applianceRun) prepare(ctx context.Context) (result, error) {
	if _, err := r.appliance.Engine.InstallCluster(ctx, r.report.ClusterID); err != nil {
		return result{}, err
	}
	err := r.poll(ctx, func(c *models.Cluster) (bool, error) {
		switch *c.Status {
		case models.ClusterStatusPreparingForInstallation:
			return false, nil
		case models.ClusterStatusReady, models.ClusterStatusInsufficient, models.ClusterStatusError:
			return false, &stepError{c.LastInstallationPreparation.Reason, "Correct this problem, and rehearse again."}
		}
		return true, nil
	})
	return result{message: "The release's openshift-install accepted the install-config and the manifests; the hosts " +
		"have pulled the release's images."}, err
}

// checkFiles validates the ignition configs that the installer generated.
func (r *applianceRun) checkFiles() (result, error) {
	names, err := r.appliance.Engine.FileNames(r.report.ClusterID, "")
	if err != nil {
		return result{}, err
	}
	configs := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".ign") {
			continue
		}
		file, _, err := r.appliance.Engine.OpenGenerated(r.report.ClusterID, name)
		if err != nil {
			return result{}, err
		}
		text, err := io.ReadAll(file)
		if err = errors.Join(err, file.Close()); err == nil {
			err = ignition.Validate(text)
		}
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", name, err)
		}
		configs++
	}
	return result{message: fmt.Sprintf("%s are valid, including one for each host.",
		sentence.Count(configs, "ignition config"))}, nil
}

// waitInstalled waits until the cluster is installed.
func (r *applianceRun) waitInstalled(ctx context.Context) (result, error) {
	err := r.poll(ctx, func(c *models.Cluster) (bool, error) {
		if *c.Status == models.ClusterStatusError || *c.Status == models.ClusterStatusCancelled {
			return false, stuckError(c)
		}
		return *c.Status == models.ClusterStatusInstalled, nil
	})
	return result{
		message: "The simulated hosts pulled the installer's image and went through all stages; the cluster " +
			"was installed."}, err
}
