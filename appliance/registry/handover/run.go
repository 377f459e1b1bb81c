package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"landfall/appliance/fault"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/mirror"
	"landfall/appliance/registry"
	"landfall/appliance/sentence"
)

// pollInterval is the time between two looks at what a hand-over waits for, and retryAfter that
// until it continues after a failure.
const (
	pollInterval = 10 * time.Second
	retryAfter   = 15 * time.Second
)

// Run carries out the stored hand-over until the context ends. A nil service has none.
func (s *Service) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	for ctx.Err() == nil {
		wait, err := s.step(ctx)
		if err != nil && ctx.Err() == nil {
			// A full disk must not end the appliance.
			s.Logger.Error("The hand-over of the registry can't go on. It is tried again.", "error", err)
			wait = retryAfter
		}
		if wait < 0 {
			continue
		}
		var tick <-chan time.Time
		if wait > 0 {
			tick = s.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-tick:
		}
	}
	return nil
}

// step does what the state asks for. It returns when to look again: 0 is after a
// request, and a negative time at once.
func (s *Service) step(ctx context.Context) (wait time.Duration, err error) {
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.cancel = cancel // before the read, so that a cancellation after the read ends the work
	s.mu.Unlock()
	found, err := s.read()
	if errors.Is(err, errNone) || err == nil && found.State.ends() {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	next, message, failed := s.work(working, found)
	if working.Err() != nil {
		return 0, nil // cancelled by a person, or it continues with the next start
	}
	wait = pollInterval
	if failed != nil {
		next, message, wait = found.State, sentence.Ending(failed)+" It is tried again.", retryAfter
		if own := new(refusal); errors.As(failed, &own) {
			next, message = Refused, sentence.Close(sentence.Clause(own.reason))
		}
	}
	if next != found.State && !next.ends() {
		wait = -1
	}
	return wait, s.store(ctx, found, next, message)
}

// store stores the result of a step, unless a person has changed the state in the meantime.
func (s *Service) store(ctx context.Context, worked *row, next State, message string) error {
	return s.change(ctx, func(held *row) error {
		if held.State != worked.State || held.Started != worked.Started {
			mergeClusters(held, worked)
			return nil
		}
		before := *held
		before.Clusters = slices.Clone(held.Clusters)
		mergeClusters(held, worked)
		held.Chunk, held.Notes, held.Proofs, held.Record = worked.Chunk, worked.Notes, worked.Proofs, worked.Record
		held.Images, held.Bytes, held.Incomplete = worked.Images, worked.Bytes, worked.Incomplete
		held.ImagesDone, held.BytesDone, held.SentBytes = worked.ImagesDone, worked.BytesDone, worked.SentBytes
		held.Message = message
		if next != held.State {
			held.State, held.Changed = next, s.Clock.Now().UTC()
			s.Logger.Info("The hand-over of the registry goes on.", "state", next, "message", message)
			if next == Done {
				s.Source.HandOver(s.placeOf(held))
			}
		}
		if reflect.DeepEqual(before, *held) {
			return errUnchanged
		}
		return nil
	})
}

// errUnchanged keeps a row as it is.
var errUnchanged = errors.New("nothing has changed")

// mergeClusters takes over the states of clusters, except where a person gave the word meanwhile.
func mergeClusters(held, worked *row) {
	for _, cluster := range worked.Clusters {
		i := slices.IndexFunc(held.Clusters, func(c Cluster) bool { return c.ID == cluster.ID })
		switch {
		case i < 0:
			held.Clusters = append(held.Clusters, cluster)
		case held.Clusters[i].State == ToRemove && cluster.State == Both:
		default:
			held.Clusters[i] = cluster
		}
	}
}

// work does the work of a state. It returns the next state, which may be the same, and a message.
func (s *Service) work(ctx context.Context, of *row) (State, string, error) {
	switch of.State {
	case Trying:
		return s.try(ctx, of)
	case Copying:
		return s.copy(ctx, of)
	case Proving:
		return s.prove(ctx, of)
	case Naming:
		return s.name(ctx, of)
	case Adding, Asking, Removing:
		return s.clusters(ctx, of)
	}
	return of.State, of.Message, nil
}

// advance changes the counts of the copy that runs.
func (s *Service) advance(with func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	with(&s.progress)
}

// open connects to the site's registry, and lists what is copied.
func (s *Service) open(of *row) (*target, *list, error) {
	at, err := parsePlace(of.To)
	if err != nil {
		return nil, nil, refused("%v", err)
	}
	secret, err := s.Secrets.Open(of.PullSecret)
	if err != nil {
		return nil, nil, refused("the pull secret of the hand-over can't be read: %v", err)
	}
	dependents, err := s.Dependents()
	if err != nil {
		return nil, nil, err
	}
	images, err := s.list(of.Needed, dependents)
	if err != nil {
		return nil, nil, err
	}
	if len(images.images) == 0 {
		return nil, nil, errors.New("the appliance's registry has no images now; plug the media in")
	}
	of.Images, of.Bytes, of.Incomplete = len(images.images), images.bytes, images.incomplete
	options := s.Client
	if of.Way == MoveName {
		// The certificate may be for the name only, because that is what nodes use.
		at, err = parsePlace(of.Name)
		if err != nil {
			return nil, nil, refused("%v", err)
		}
		options = dialTo(options, of.Name, of.To)
		secret, err = renamed(secret, of.To, of.Name)
		if err != nil {
			return nil, nil, err
		}
	}
	to, err := newTarget(at, append(append([]byte{}, s.Roots...), of.CA...), secret, options)
	return to, images, err
}

// renamed returns a pull secret whose entry for a registry is for another name.
func renamed(secret, from, to string) (string, error) {
	if secret == "" {
		return "", nil
	}
	at, err := parsePlace(from)
	if err != nil {
		return "", err
	}
	parsed, err := mirror.ParsePullSecret(secret)
	if err != nil {
		return "", err
	}
	config, err := credentialsOf(parsed, at)
	if err != nil {
		return "", err
	}
	return mirror.AddCredentials("", to, config.Username, config.Password)
}

func (s *Service) try(ctx context.Context, of *row) (State, string, error) {
	to, images, err := s.open(of)
	if err != nil {
		return "", "", err
	}
	defer to.close()
	s.advance(func(p *Status) { *p = Status{} })
	t := &trial{target: to, list: images, chunk: new(chunkSize), notes: []string{},
		own: func(digest string) bool { _, err := s.Source.Blob(digest); return err == nil }}
	if err := t.run(ctx); err != nil {
		return "", "", err
	}
	of.Chunk, of.Notes = t.chunk.bytes.Load(), t.notes
	return Copying, "The registry accepts a trial upload. The images are being copied.", nil
}

func (s *Service) copy(ctx context.Context, of *row) (State, string, error) {
	to, images, err := s.open(of)
	if err != nil {
		return "", "", err
	}
	defer to.close()
	s.advance(func(p *Status) { *p = Status{SentBytes: p.SentBytes} })
	chunk := new(chunkSize)
	chunk.bytes.Store(of.Chunk)
	err = newCopier(s, to, images, chunk).run(ctx)
	of.Chunk = chunk.bytes.Load()
	s.advance(func(p *Status) { of.ImagesDone, of.BytesDone, of.SentBytes = p.ImagesDone, p.BytesDone, p.SentBytes })
	if err != nil {
		return "", "", err
	}
	return Proving, "All images are copied. The prover now checks that the registry serves them.", nil
}

// prove proves what each dependent cluster needs in the new registry.
func (s *Service) prove(ctx context.Context, of *row) (State, string, error) {
	dependents, err := s.Dependents()
	if err != nil {
		return "", "", err
	}
	of.Proofs = []Proof{}
	failed := ""
	for _, d := range dependents {
		proof, err := s.proveFor(ctx, of, d, true)
		if err != nil {
			return "", "", err
		}
		of.Proofs = append(of.Proofs, *proof)
		if !proof.Complete && failed == "" {
			failed = proof.Name + ": " + proof.Summary
		}
	}
	if failed != "" {
		return "", "", refused("%s does not hold what the clusters need. %s", of.To, failed)
	}
	if of.Way == MoveName {
		return Naming, "", nil
	}
	return Adding, "The prover has found all images. The clusters get the second mirror.", nil
}

// proveFor proves what a cluster needs in the new registry, with the rules, CAs and credentials of
// its nodes. redirect leads the name to the new registry before DNS does.
func (s *Service) proveFor(ctx context.Context, of *row, d registry.Dependent, redirect bool) (*Proof, error) {
	source, err := s.Installs(d.ID)
	if err != nil {
		return nil, err
	}
	rules, err := s.moved(of, d.ID)
	if err != nil {
		return nil, err
	}
	options := s.Client
	if of.Way == MoveName && redirect {
		options = dialTo(options, of.Name, of.To)
	}
	if of.Way == AddMirror {
		if source.PullSecret, err = s.withNodes(of, source.PullSecret); err != nil {
			return nil, err
		}
	}
	proof, err := s.Prove(ctx, source, mirror.NewClient(rules.Trusting(source.TrustBundle), options))
	if err != nil {
		return nil, fmt.Errorf("prove the images of %s: %w", d.Name, err)
	}
	return &Proof{ClusterID: d.ID, Name: registry.NamesOf([]registry.Dependent{d})[0], Complete: proof.Complete,
		Images: proof.Images, Summary: proof.Summary, At: s.Clock.Now().UTC()}, nil
}

// name waits until the name leads to the new registry, and proves it again as nodes see it.
func (s *Service) name(ctx context.Context, of *row) (State, string, error) {
	host, _ := splitHost(of.Name)
	to, _ := splitHost(of.To)
	wanted, err := s.addresses(ctx, to)
	if err != nil {
		return "", "", err
	}
	present, err := s.addresses(ctx, host)
	if err != nil {
		present = []string{}
	}
	of.Record = recordOf(host, wanted, present)
	if len(present) == 0 || !subset(present, wanted) {
		return Naming, fmt.Sprintf("The site's registry has everything. Let the DNS name %s lead to %s; it leads to "+
			"%s now.", host, strings.Join(wanted, " and "), orNothing(present)), nil
	}
	dependents, err := s.Dependents()
	if err != nil {
		return "", "", err
	}
	for _, d := range dependents {
		proof, err := s.proveFor(ctx, of, d, false)
		if err != nil {
			return "", "", err
		}
		if !proof.Complete {
			return Naming, fmt.Sprintf("%s leads to %s, but the images of %s can't be pulled under this name: %s", host,
				strings.Join(present, " and "), proof.Name, proof.Summary), nil
		}
	}
	for i := range of.Clusters {
		of.Clusters[i].State = Independent
	}
	return Done, fmt.Sprintf("%s leads to the site's registry, and all images can be pulled there. The clusters don't "+
		"need this appliance for images.", of.Name), nil
}

func (s *Service) addresses(ctx context.Context, host string) ([]string, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []string{address.Unmap().String()}, nil
	}
	found, err := s.Lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("%s does not resolve here: %w", host, err)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func subset(part, of []string) bool {
	return !slices.ContainsFunc(part, func(item string) bool { return !slices.Contains(of, item) })
}

func orNothing(addresses []string) string {
	if len(addresses) == 0 {
		return "nothing"
	}
	return strings.Join(addresses, " and ")
}

// recordOf returns the record that moves the name.
func recordOf(host string, wanted, present []string) *Record {
	r := &Record{Name: host, Addresses: wanted, Present: present}
	var lines []string
	for _, text := range wanted {
		kind := "A"
		if address, err := netip.ParseAddr(text); err == nil && address.Is6() {
			kind = "AAAA"
		}
		lines = append(lines, fmt.Sprintf("%s. 300 IN %s %s", host, kind, text))
	}
	r.Text = strings.Join(lines, "\n")
	return r
}

// clusters changes the mirror sets of the clusters, each as far as it can go.
func (s *Service) clusters(ctx context.Context, of *row) (State, string, error) {
	dependents, err := s.Dependents()
	if err != nil {
		return "", "", err
	}
	now := s.Clock.Now().UTC()
	for _, d := range dependents {
		if !slices.ContainsFunc(of.Clusters, func(c Cluster) bool { return c.ID == d.ID }) {
			of.Clusters = append(of.Clusters, Cluster{ID: d.ID, Name: registry.NamesOf([]registry.Dependent{d})[0],
				State: Waiting, Pools: []Pool{}, Since: now})
		}
	}
	for i := range of.Clusters {
		cluster := &of.Clusters[i]
		at := slices.IndexFunc(dependents, func(d registry.Dependent) bool { return d.ID == cluster.ID })
		switch {
		case cluster.State == Independent:
			continue
		case at < 0:
			cluster.State, cluster.Message = Absent, "It was deleted, or its mirror rules don't name the appliance's "+
				"registry."
			continue
		case cluster.State == Absent:
			cluster.State = Waiting
		}
		before := cluster.State
		if err := s.advanceCluster(ctx, of, cluster, dependents[at]); err != nil {
			if ctx.Err() != nil {
				return "", "", err
			}
			cluster.Message = sentence.Ending(err)
		}
		if cluster.State != before {
			cluster.Since = s.Clock.Now().UTC()
			if err := s.store(ctx, of, of.State, of.Message); err != nil {
				return "", "", err
			}
		}
	}
	next, message := overall(of)
	return next, message, nil
}

// overall returns the state of the hand-over from those of its clusters.
func overall(of *row) (State, string) {
	count := map[ClusterState]int{}
	var waiting []string
	for _, cluster := range of.Clusters {
		count[cluster.State]++
		if cluster.State == Waiting || cluster.State == RollingIn {
			waiting = append(waiting, cluster.Name)
		}
	}
	all := len(of.Clusters) - count[Absent]
	switch {
	case count[Independent] == all:
		return Done, "No cluster depends on this appliance's registry any more. New clusters use " + of.To + "."
	case count[ToRemove]+count[RollingOut] > 0:
		return Removing, "The nodes lose the first mirror, one after the other."
	case len(waiting) > 0:
		return Adding, "These clusters get the second mirror: " + strings.Join(waiting, ", ") + "."
	}
	return Asking, fmt.Sprintf("%s both mirrors. Remove the first with landfall registry hand-over --remove-first; "+
		"the nodes take that over one after the other.", sentenceOf(count[Both], "cluster has", "clusters have"))
}

// advanceCluster brings a cluster one state further, if it is ready for that.
func (s *Service) advanceCluster(ctx context.Context, of *row, cluster *Cluster, d registry.Dependent) error {
	if cluster.State == Both {
		cluster.Message = ""
		return nil
	}
	if d.Status != installed && d.Status != addingHosts {
		cluster.Message = "The cluster is being installed. It gets the second mirror after that."
		return nil
	}
	client, err := s.Connect(d.ID)
	if err != nil {
		return err
	}
	defer client.Close()
	switch cluster.State {
	case Waiting:
		err = s.addMirror(ctx, of, client, cluster)
	case ToRemove:
		err = s.removeMirror(ctx, of, client, cluster)
	case RollingIn, RollingOut:
		err = roll(ctx, of, client, cluster)
	}
	return explained(err, client.Server())
}

// explained turns an error of a cluster's API into a sentence.
func explained(err error, server string) error {
	if _, own := errors.AsType[*fault.Error](err); err == nil || own {
		return err
	}
	if apierrors.IsConflict(err) {
		return errors.New("somebody changed the object at the same time; it is tried again")
	}
	_, message := spoke.Explain(err, server)
	return errors.New(message)
}

// addMirror gives a cluster the CA, the credentials and the second mirror, in this order.
func (s *Service) addMirror(ctx context.Context, of *row, in api, cluster *Cluster) error {
	at, err := parsePlace(of.To)
	if err != nil {
		return err
	}
	if of.CA != "" {
		if err := trustCA(ctx, in, at.host, of.CA); err != nil {
			return err
		}
	}
	if of.NodeSecret != "" {
		if err := addCredentials(ctx, in, func(secret string) (string, error) {
			return s.withNodes(of, secret)
		}); err != nil {
			return err
		}
	}
	return s.changeMirrors(ctx, of, in, cluster, RollingIn, func(mirrors []string) []string {
		return withSecond(mirrors, of.Name, of.To)
	})
}

// removeMirror takes the first mirror from a cluster.
func (s *Service) removeMirror(ctx context.Context, of *row, in api, cluster *Cluster) error {
	if err := moveReferences(ctx, in, of.Name, of.To); err != nil {
		return err
	}
	return s.changeMirrors(ctx, of, in, cluster, RollingOut, func(mirrors []string) []string {
		// A mirror set that came after the second mirror has only the first.
		return withoutFirst(withSecond(mirrors, of.Name, of.To), of.Name, of.To)
	})
}

// changeMirrors changes the mirror sets of a cluster. It stores the present configurations of the
// pools before, so that a restart in between knows what the nodes have to leave.
func (s *Service) changeMirrors(ctx context.Context, of *row, in api, cluster *Cluster, next ClusterState,
	edit func([]string) []string) error {
	found, err := pools(ctx, in)
	if err != nil {
		return err
	}
	needed, err := editMirrors(ctx, in, edit, true)
	if err != nil {
		return err
	}
	if needed {
		cluster.Before = configurations(found)
		if err := s.store(ctx, of, of.State, of.Message); err != nil {
			return err
		}
		if _, err := editMirrors(ctx, in, edit, false); err != nil {
			return err
		}
	}
	cluster.State = next
	return roll(ctx, of, in, cluster)
}

// roll looks whether the nodes have a change, and the mirror sets still do.
func roll(ctx context.Context, of *row, in api, cluster *Cluster) error {
	found, err := pools(ctx, in)
	if err != nil {
		return err
	}
	complete := false
	cluster.Pools, complete, cluster.Message = rollout(found, cluster.Before)
	if !complete {
		return nil
	}
	next, change := Independent, func(mirrors []string) []string { return without(mirrors, of.Name) }
	if cluster.State == RollingIn {
		next, change = Both, func(mirrors []string) []string { return withSecond(mirrors, of.Name, of.To) }
	}
	undone, err := editMirrors(ctx, in, change, true)
	switch {
	case err != nil:
		return err
	case undone:
		cluster.Message = "Its mirror sets were changed back, for example by a GitOps controller. Change them in " +
			"their repository."
		return nil
	}
	cluster.State, cluster.Before = next, nil
	return nil
}

// States of clusters that can be changed (assisted-service, models/cluster.go).
const (
	installed   = "installed"
	addingHosts = "adding-hosts"
)
