package view

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
	"landfall/store/fastjson"
)

// JSON is a response in pieces. Responses share pieces, so callers must not change them.
type JSON [][]byte

// Size returns the number of bytes.
func (j JSON) Size() int64 {
	size := int64(0)
	for _, piece := range j {
		size += int64(len(piece))
	}
	return size
}

// WriteTo implements io.WriterTo.
func (j JSON) WriteTo(w io.Writer) (int64, error) {
	written := int64(0)
	for _, piece := range j {
		n, err := w.Write(piece)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// renderedLimit is the maximum size of the cache in bytes.
const renderedLimit = 12 << 20

// renderings caches the JSON of clusters and hosts, because clients often request objects that have
// not changed. An entry is only valid for the revisions of its rows, so the cache never returns
// outdated JSON.
type renderings struct {
	mu    sync.Mutex
	size  int
	byKey map[string]*rendering
}

// rendering is the JSON of an object without the closing bracket, so that fields can be appended.
type rendering struct {
	made []uint64 // revisions of the rendered rows, in order
	text []byte
	at   time.Time // creation time of a cluster; stored time of a host's last contact
}

func (r *renderings) get(key string, made []uint64) (*rendering, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.byKey[key]
	return held, ok && slices.Equal(held.made, made)
}

// put caches a rendering. If the cache is full, it deletes random entries. Deleting the oldest ones
// would delete every entry before its next use when a client reads a list that is larger than the
// cache.
func (r *renderings) put(key string, made *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey == nil {
		r.byKey = make(map[string]*rendering)
	}
	r.remove(key)
	r.byKey[key] = made
	r.size += len(made.text)
	for other := range r.byKey {
		if r.size <= renderedLimit {
			return
		}
		r.remove(other)
	}
}

func (r *renderings) remove(key string) {
	if held, ok := r.byKey[key]; ok {
		r.size -= len(held.text)
		delete(r.byKey, key)
	}
}

// drop deletes the entries of deleted objects.
func (r *renderings) drop(keys ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		r.remove(key)
	}
}

// rendered returns the cached rendering of these revisions. If the cache has no such rendering, it
// renders the object and caches the result.
func (r *Reader) rendered(key string, made []uint64, render func() (any, time.Time, error)) (*rendering, error) {
	if held, ok := r.renderings.get(key, made); ok {
		return held, nil
	}
	value, at, err := render()
	if err != nil {
		return nil, err
	}
	text, err := fastjson.Marshal(value)
	if err != nil {
		return nil, err
	}
	fresh := &rendering{made: made, text: slices.Clip(text[:len(text)-1]), at: at}
	r.renderings.put(key, fresh)
	return fresh, nil
}

// ClusterList returns the JSON of the clusters that wanted selects (nil: all), newest first, with
// or without their hosts.
func (r *Reader) ClusterList(withHosts bool, wanted func(*models.Cluster) bool) (JSON, error) {
	type listed struct {
		*rendering
		id string
	}
	var answer JSON
	err := r.db.View(func(tx *store.Tx) error {
		var clusters []listed
		err := record.Clusters.Revisions(tx, "", func(id string, revision uint64) error {
			if wanted != nil {
				row, err := record.Clusters.Get(tx, id)
				if err != nil || !wanted(&row.API) {
					return store.SkipDamaged(err)
				}
			}
			cluster, err := r.renderCluster(tx, id, revision)
			if err != nil {
				return store.SkipDamaged(err)
			}
			clusters = append(clusters, listed{cluster, id})
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(clusters, func(a, b listed) int { return b.at.Compare(a.at) })
		answer = append(make(JSON, 0, 2+2*len(clusters)), []byte("["))
		for i, cluster := range clusters {
			if answer, err = r.appendCluster(separate(answer, i), tx, cluster.id, cluster.rendering,
				withHosts); err != nil {
				return err
			}
		}
		answer = append(answer, []byte("]\n"))
		return nil
	})
	return answer, err
}

// ClusterJSON returns the JSON of a cluster, with or without its hosts. A missing cluster is an
// error of kind NotFound.
func (r *Reader) ClusterJSON(id string, withHosts bool) (JSON, error) {
	var answer JSON
	err := r.db.View(func(tx *store.Tx) error {
		revision, err := record.Clusters.Modified(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no cluster %s.", id)
		}
		if err != nil {
			return err
		}
		cluster, err := r.renderCluster(tx, id, revision)
		if err != nil {
			return err
		}
		answer, err = r.appendCluster(nil, tx, id, cluster, withHosts)
		answer = append(answer, []byte("\n"))
		return err
	})
	return answer, err
}

func (r *Reader) appendCluster(answer JSON, tx *store.Tx, id string, cluster *rendering, withHosts bool) (JSON, error) {
	answer = append(answer, cluster.text, []byte(`,"hosts":[`))
	if withHosts {
		var err error
		if answer, err = r.appendHosts(answer, tx, id); err != nil {
			return nil, err
		}
	}
	return append(answer, []byte("]}")), nil
}

// separate adds a comma before each item of a list except the first.
func separate(answer JSON, position int) JSON {
	if position == 0 {
		return answer
	}
	return append(answer, []byte(","))
}

func (r *Reader) renderCluster(tx *store.Tx, id string, revision uint64) (*rendering, error) {
	validations, err := revisionOf(record.Validations.Modified(tx, record.ClusterSubject(id)))
	if err != nil {
		return nil, err
	}
	made := []uint64{revision, validations}
	err = record.ClusterHosts.Keys(tx, id+"/", func(key string) error {
		host, err := record.Hosts.Modified(tx, key[len(id)+1:])
		made = append(made, host)
		return store.SkipDamaged(err)
	})
	if err != nil {
		return nil, err
	}
	return r.rendered(record.ClusterSubject(id), made, func() (any, time.Time, error) {
		row, err := record.Clusters.Get(tx, id)
		if err != nil {
			return nil, time.Time{}, err
		}
		shown, err := r.ShowCluster(tx, row, false)
		description.HideProxyPasswords(shown)
		return clusterWithoutHosts{Cluster: shown}, row.API.CreatedAt, err
	})
}

// revisionOf returns revision 0 for a missing row.
func revisionOf(revision uint64, err error) (uint64, error) {
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return revision, err
}

// clusterWithoutHosts renders a cluster without its hosts.
type clusterWithoutHosts struct {
	*models.Cluster
	Hosts []*models.Host `json:"hosts,omitempty"`
}

func (r *Reader) appendHosts(answer JSON, tx *store.Tx, cluster string) (JSON, error) {
	keys, err := record.ClusterHostKeys(tx, cluster)
	if err != nil {
		return nil, err
	}
	shown := 0
	for _, key := range keys {
		with, err := r.appendListed(answer, shown, tx, key)
		if store.IsDamaged(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		answer, shown = with, shown+1
	}
	return answer, nil
}

// appendListed appends the JSON of a host after a number of others.
func (r *Reader) appendListed(answer JSON, position int, tx *store.Tx, key string) (JSON, error) {
	revision, err := record.Hosts.Modified(tx, key)
	if err != nil {
		return nil, err
	}
	return r.appendHost(separate(answer, position), tx, key, revision)
}

// HostList returns the JSON of an infra-env's hosts with their reports, ordered by id. A missing
// infra-env is an error of kind NotFound.
func (r *Reader) HostList(infraEnvID string) (JSON, error) {
	var answer JSON
	err := r.db.View(func(tx *store.Tx) error {
		if !record.InfraEnvs.Exists(tx, infraEnvID) {
			return fault.New(fault.NotFound, "There is no infra-env %s.", infraEnvID)
		}
		answer = JSON{[]byte("[")}
		hosts := 0
		err := record.Hosts.Revisions(tx, infraEnvID+"/", func(key string, revision uint64) error {
			with, err := r.appendHost(separate(answer, hosts), tx, key, revision)
			if err != nil {
				return store.SkipDamaged(err)
			}
			answer, hosts = with, hosts+1
			return nil
		})
		answer = append(answer, []byte("]\n"))
		return err
	})
	return answer, err
}

// HostJSON returns the JSON of a host with its reports. A missing host is an error of kind
// NotFound.
func (r *Reader) HostJSON(infraEnvID, hostID string) (JSON, error) {
	var answer JSON
	err := r.db.View(func(tx *store.Tx) error {
		key := infraEnvID + "/" + hostID
		revision, err := record.Hosts.Modified(tx, key)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		if err != nil {
			return err
		}
		answer, err = r.appendHost(nil, tx, key, revision)
		answer = append(answer, []byte("\n"))
		return err
	})
	return answer, err
}

// appendHost appends the JSON of a host: its row with its validations, its reports and the time of
// its last contact.
func (r *Reader) appendHost(answer JSON, tx *store.Tx, key string, revision uint64) (JSON, error) {
	subject := record.HostSubject(key)
	validations, err := revisionOf(record.Validations.Modified(tx, subject))
	if err != nil {
		return nil, err
	}
	host, err := r.rendered(subject, []uint64{revision, validations}, func() (any, time.Time, error) {
		row, err := record.Hosts.Get(tx, key)
		if err != nil {
			return nil, time.Time{}, err
		}
		shown, err := r.ShowHost(tx, row, false)
		return hostWithoutContact{Host: shown}, time.Time(row.API.CheckedInAt), err
	})
	if err != nil {
		return nil, err
	}
	reports, err := r.renderReports(tx, key)
	if err != nil {
		return nil, err
	}
	answer = append(answer, host.text)
	if len(reports.text) > 1 { // more than the opening bracket
		answer = append(answer, []byte(","), reports.text[1:])
	}
	at := host.at
	if polled, ok := r.presence.Polled(key); ok {
		at = polled
	}
	return append(answer, []byte(`,"checked_in_at":"`+strfmt.DateTime(at).String()+`"}`)), nil
}

// hostWithoutContact renders a host without the time of its last contact, which each poll changes.
type hostWithoutContact struct {
	*models.Host
	CheckedInAt *strfmt.DateTime `json:"checked_in_at,omitempty"`
}

func (r *Reader) renderReports(tx *store.Tx, key string) (*rendering, error) {
	var made []uint64
	err := record.Reports.Revisions(tx, key+"/", func(_ string, revision uint64) error {
		made = append(made, revision)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r.rendered(reportSubject(key), made, func() (any, time.Time, error) {
		reports, err := record.LoadReports(tx, key)
		return reported(reports), time.Time{}, err
	})
}

func reportSubject(key string) string { return "reports/" + key }

// reported renders the reports of a host's agent.
type reported struct {
	Inventory       string `json:"inventory,omitempty"`
	Connectivity    string `json:"connectivity,omitempty"`
	NTPSources      string `json:"ntp_sources,omitempty"`
	Domains         string `json:"domain_name_resolutions,omitempty"`
	FreeAddresses   string `json:"free_addresses,omitempty"`
	Tang            string `json:"tang_connectivity,omitempty"`
	APIConnectivity string `json:"api_vip_connectivity,omitempty"`
	Images          string `json:"images_status,omitempty"`
	Disks           string `json:"disks_info,omitempty"`
}
