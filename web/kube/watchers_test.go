package kube_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"landfall/appliance/kube/objects"
)

// Watchers of an object share each encoding that they can request. The storage of package etcd
// shares it.

const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	asMetadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// tableOf returns a table without the ages of the objects, which change.
func tableOf(t *testing.T, text []byte) (rows string, columns int) {
	var table metav1.Table
	require.NoError(t, json.Unmarshal(text, &table), string(text))
	for i := range table.Rows {
		cells := table.Rows[i].Cells
		table.Rows[i].Cells = cells[:len(cells)-1]
	}
	text, err := json.Marshal(table.Rows)
	require.NoError(t, err)
	return string(text), len(table.ColumnDefinitions)
}

func TestWatchers_sameAsReaders(t *testing.T) {
	s := sealedSite(t)
	url := overHTTP(t, s)
	s.create(t, objects.Secrets, "default", "one", `"stringData":{"password":"a-secret-word"}`)
	s.create(t, objects.ConfigMaps, "default", "one", `"data":{"a":"b"}`)
	s.create(t, objects.InfraEnvs, "default", "one", infraEnvSpec)
	for _, c := range []struct {
		kind  objects.Kind
		path  string
		forms []string
	}{
		{objects.Secrets, "/api/v1/namespaces/default/secrets", []string{asJSON, asMetadata, asTable, asProtobuf}},
		{objects.ConfigMaps, "/api/v1/namespaces/default/configmaps", []string{asJSON, asMetadata,
			asTable, asProtobuf}},
		{objects.InfraEnvs, "/apis/agent-install.openshift.io/v1beta1/namespaces/default/infraenvs",
			[]string{asJSON, asMetadata, asTable}},
	} {
		t.Run(c.kind.Kind, func(t *testing.T) {
			query := fmt.Sprint("?watch=true&resourceVersion=", s.db.Revision())
			watchers := map[string][]func() []byte{}
			for range 3 {
				for _, form := range c.forms {
					watchers[form] = append(watchers[form], events(t, url+c.path+query, form))
				}
			}
			for change := range 3 {
				_, err := s.of(c.kind, "default").Patch(t.Context(), "one", types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, change), metav1.PatchOptions{})
				require.NoError(t, err)
				for _, form := range c.forms {
					alone := []byte(getText(t, url+c.path+"/one", form))
					var first string
					for _, next := range watchers[form] {
						text := next()
						var event metav1.WatchEvent
						if form != asProtobuf {
							require.NoError(t, json.Unmarshal(text, &event))
							require.Equal(t, string(watch.Modified), event.Type)
						}
						switch form {
						case asTable:
							wanted, columns := tableOf(t, alone)
							rows, described := tableOf(t, event.Object.Raw)
							require.Equal(t, wanted, rows)
							require.True(t, described == columns || change > 0 && described == 0,
								"the first event describes the columns; later events may describe them again, as in a "+
									"cluster")
							continue
						case asProtobuf:
							require.True(t, bytes.Contains(text, alone), "%q does not contain %q", text, alone)
						default:
							require.Equal(t, string(bytes.TrimSpace(alone)), string(event.Object.Raw), form)
						}
						if first == "" {
							first = string(text)
						}
						require.Equal(t, first, string(text), form)
					}
				}
			}
		})
	}
}

func TestWatchers_noSharedMemory(t *testing.T) {
	s := sealedSite(t)
	const changes = 30
	for _, kind := range []objects.Kind{objects.Secrets, objects.InfraEnvs} {
		content := infraEnvSpec
		if kind == objects.Secrets {
			content = `"stringData":{"password":"a-secret-word"}`
		}
		made := s.create(t, kind, "default", "contended", content)
		var group sync.WaitGroup
		for i := range 6 {
			options := metav1.ListOptions{ResourceVersion: made.GetResourceVersion()}
			if i%2 == 0 {
				options.FieldSelector = "metadata.name=contended"
			}
			if i%3 == 0 {
				options.LabelSelector = "kept=yes"
			}
			w, err := s.of(kind, "default").Watch(t.Context(), options)
			require.NoError(t, err)
			group.Go(func() {
				defer w.Stop()
				for seen := 0; seen < 2*changes; seen++ {
					event := <-w.ResultChan()
					wanted := watch.Modified
					if i%3 == 0 { // the object is repeatedly created and deleted
						wanted = []watch.EventType{watch.Added, watch.Deleted}[seen%2]
					}
					if event.Type != wanted {
						t.Errorf("watcher %d: event %d is %v", i, seen, event)
						return
					}
				}
			})
		}
		for change := range 2 * changes {
			value := []string{`"yes"`, "null"}[change%2]
			_, err := s.of(kind, "default").Patch(t.Context(), "contended", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{"kept":%s,"n":"%d"}}}`, value, change), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		group.Wait()
	}
}
