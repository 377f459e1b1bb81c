package simulate

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"landfall/appliance/simulate/pki"
)

// Spokes simulates the APIs of installed clusters on one port. The server name of a connection
// selects the cluster, as in the cluster's kubeconfig. One CA signs all certificates. The group's
// controllers report it as the CA of their clusters' ingresses, so that kubeconfigs trust it.
type Spokes struct {
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
	failed   error // the error that stopped the server
	ca       *pki.Pair

	mu           sync.Mutex
	certificates map[string]*tls.Certificate
	clusters     map[string]*Spoke
	claimed      map[strfmt.UUID]bool // hosts whose kubelets are run by a group
}

// NewSpokes starts a server that listens at an address until Close.
func NewSpokes(ctx context.Context, address string) (*Spokes, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the clusters' APIs: %w", err)
	}
	s := &Spokes{listener: listener, certificates: map[string]*tls.Certificate{}, clusters: map[string]*Spoke{},
		claimed: map[strfmt.UUID]bool{}}
	if s.ca, err = pki.NewCA("ingress-operator@spokes", "openshift", pki.TenYears); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate,
			ClientAuth: tls.RequestClientCert},
	}
	s.served.Go(func() {
		if err := s.server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.failed = err
		}
	})
	return s, nil
}

// Close stops the server.
func (s *Spokes) Close() error {
	err := s.server.Close()
	s.served.Wait()
	return errors.Join(s.failed, err)
}

// Addr returns the listen address.
func (s *Spokes) Addr() string { return s.listener.Addr().String() }

// CA returns the CA certificate in PEM.
func (s *Spokes) CA() []byte { return s.ca.Cert }

// Kubeconfig returns an administrator's kubeconfig for the cluster whose API has the given name,
// such as api.one.example.com, at the default port. For another port, use KubeconfigAt.
func (s *Spokes) Kubeconfig(name string) []byte { return s.KubeconfigAt(name, "6443") }

func (s *Spokes) KubeconfigAt(name, port string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://%s:%s', "+
		"certificate-authority-data: %s}}]\n"+
		"users: [{name: admin, user: {token: admin}}]\ncontexts: [{name: admin, context: {cluster: c, user: "+
		"admin}}]\ncurrent-context: admin\n",
		name, port, base64.StdEncoding.EncodeToString(s.ca.Cert))
}

func (s *Spokes) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := hello.ServerName
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.certificates[name]; held != nil {
		return held, nil
	}
	pair, err := pki.NewServer(name, []string{name}, nil, pki.Year, s.ca)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	s.certificates[name] = &certificate
	return &certificate, nil
}

// Cluster returns the cluster with the given API name. It creates the cluster if necessary.
func (s *Spokes) Cluster(name string) *Spoke {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.clusters[name]
	if held == nil {
		held = &Spoke{objects: map[string]*unstructured.Unstructured{}}
		held.Put(poolsPath, map[string]any{"metadata": map[string]any{"name": "worker"},
			"spec": map[string]any{"paused": false}})
		held.Put("api/v1/configmaps", map[string]any{"metadata": map[string]any{"namespace": "kube-system",
			"name": "root-ca"}, "data": map[string]any{"ca.crt": string(s.ca.Cert)}})
		s.clusters[name] = held
	}
	return held
}

// claim assigns a host's kubelet to the host's group.
func (s *Spokes) claim(host strfmt.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed[host] = true
}

func (s *Spokes) isClaimed(host strfmt.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed[host]
}

// ServeHTTP implements http.Handler.
func (s *Spokes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Cluster(r.TLS.ServerName).ServeHTTP(w, r)
}

// Spoke is the API of one cluster. It implements the part of Kubernetes' REST API for nodes,
// certificate signing requests, pods, Machines and similar objects.
type Spoke struct {
	mu       sync.Mutex
	objects  map[string]*unstructured.Unstructured // by collection, namespace and name
	kinds    map[string]string                     // of collections that only this cluster has
	revision int
	answer   func(*http.Request) int
}

// Answer makes requests fail with the status that the function returns, unless the status is 0. nil
// removes the function.
func (s *Spoke) Answer(with func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = with
}

// Put adds or replaces an object. collection is the path without namespace: "api/v1/nodes".
func (s *Spoke) Put(collection string, object map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(collection, &unstructured.Unstructured{Object: object})
}

// Serve adds a collection with a kind, as an operator does with its definitions of resources.
func (s *Spoke) Serve(collection, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]string{}
	}
	s.kinds[collection] = kind
}

// kind returns the kind of a collection, or "" if the cluster does not have it.
func (s *Spoke) kind(collection string) string {
	if kind := s.kinds[collection]; kind != "" {
		return kind
	}
	return spokeKinds()[collection]
}

// Object returns a copy of an object, or nil.
func (s *Spoke) Object(collection, namespace, name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.objects[placeOf(collection, namespace, name)]
	if held == nil {
		return nil
	}
	return held.DeepCopy()
}

// spokeKinds returns the collections of a cluster and the kinds of their objects.
func spokeKinds() map[string]string {
	return map[string]string{
		nodesPath: "Node", "api/v1/pods": "Pod", "api/v1/configmaps": "ConfigMap",
		requestsPath: "CertificateSigningRequest",
		"apis/machine.openshift.io/v1beta1/machines":    "Machine",
		"apis/machine.openshift.io/v1beta1/machinesets": "MachineSet",
		"apis/metal3.io/v1alpha1/baremetalhosts":        "BareMetalHost", poolsPath: "MachineConfigPool",
		"api/v1/namespaces": "Namespace", "api/v1/secrets": "Secret", "api/v1/serviceaccounts": "ServiceAccount",
		"apis/apps/v1/deployments": "Deployment", "apis/storage.k8s.io/v1/storageclasses": "StorageClass",
		"apis/rbac.authorization.k8s.io/v1/clusterrolebindings":  "ClusterRoleBinding",
		"apis/apiextensions.k8s.io/v1/customresourcedefinitions": "CustomResourceDefinition",
	}
}

// versionOf returns the apiVersion of a collection's objects.
func versionOf(collection string) string {
	_, version, _ := strings.Cut(collection[:strings.LastIndex(collection, "/")], "/")
	return version
}

func placeOf(collection, namespace, name string) string {
	return collection + "|" + namespace + "|" + name
}

func (s *Spoke) put(collection string, u *unstructured.Unstructured) {
	s.revision++
	u.SetAPIVersion(versionOf(collection))
	u.SetKind(s.kind(collection))
	u.SetResourceVersion(fmt.Sprint(s.revision))
	if u.GetUID() == "" {
		u.SetUID(types.UID(uuid.NewString()))
	}
	if at := u.GetCreationTimestamp(); at.IsZero() {
		u.SetCreationTimestamp(meta.NewTime(time.Now().UTC().Truncate(time.Second)))
	}
	s.objects[placeOf(collection, u.GetNamespace(), u.GetName())] = u
}

// spokePath is the parsed path of a request.
type spokePath struct {
	collection, namespace, name, sub string
}

func parseSpokePath(path string) (spokePath, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var p spokePath
	group := 2
	if parts[0] == "apis" {
		group = 3
	}
	if len(parts) <= group {
		return p, false
	}
	root, rest := strings.Join(parts[:group], "/"), parts[group:]
	if len(rest) > 2 && rest[0] == "namespaces" {
		p.namespace, rest = rest[1], rest[2:]
	}
	p.collection = root + "/" + rest[0]
	if len(rest) > 1 {
		p.name = rest[1]
	}
	if len(rest) > 2 {
		p.sub = rest[2]
	}
	return p, true
}

// ServeHTTP implements http.Handler.
func (s *Spoke) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		if status := s.answer(r); status != 0 {
			refuse(w, status, http.StatusText(status), "")
			return
		}
	}
	p, ok := parseSpokePath(r.URL.Path)
	if !ok || s.kind(p.collection) == "" {
		refuse(w, http.StatusNotFound, "NotFound", r.URL.Path)
		return
	}
	held := s.objects[placeOf(p.collection, p.namespace, p.name)]
	switch {
	case p.name == "" && r.Method == http.MethodGet:
		s.list(w, r, p)
	case p.name == "" && r.Method == http.MethodPost:
		s.create(w, r, p)
	case held == nil && r.Header.Get("Content-Type") == "application/apply-patch+yaml":
		s.create(w, r, p)
	case held == nil:
		refuse(w, http.StatusNotFound, "NotFound", p.collection+" "+p.name)
	case r.Method == http.MethodGet:
		sendJSON(w, http.StatusOK, held)
	case r.Method == http.MethodDelete:
		s.delete(w, r, p, held)
	case p.sub == "eviction":
		delete(s.objects, placeOf(p.collection, p.namespace, p.name))
		sendJSON(w, http.StatusCreated, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	case r.Method == http.MethodPut || r.Method == http.MethodPatch:
		s.update(w, r, p, held)
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

func (s *Spoke) list(w http.ResponseWriter, r *http.Request, p spokePath) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	onNode, _ := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
	within := p.collection + "|"
	if p.namespace != "" {
		within += p.namespace + "|"
	}
	items := []any{}
	for place, u := range s.objects {
		node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
		if strings.HasPrefix(place, within) && selector.Matches(labels.Set(u.GetLabels())) &&
			(onNode == "" || node == onNode) {
			items = append(items, u.Object)
		}
	}
	sendJSON(w, http.StatusOK, map[string]any{"kind": s.kind(p.collection) + "List",
		"apiVersion": versionOf(p.collection), "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.revision)},
		"items": items})
}

func (s *Spoke) create(w http.ResponseWriter, r *http.Request, p spokePath) {
	u := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&u.Object); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	u.SetNamespace(p.namespace)
	if s.kinds[p.collection] != "" {
		delete(u.Object, "status")
		u.SetGeneration(1)
	}
	if s.objects[placeOf(p.collection, p.namespace, u.GetName())] != nil {
		refuse(w, http.StatusConflict, "AlreadyExists", p.collection+" "+u.GetName())
		return
	}
	s.put(p.collection, u)
	sendJSON(w, http.StatusCreated, u)
}

// delete deletes an object, unless the request wants to delete another one or another version.
func (s *Spoke) delete(w http.ResponseWriter, r *http.Request, p spokePath, held *unstructured.Unstructured) {
	var options meta.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil && !errors.Is(err, io.EOF) {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	if wanted := options.Preconditions; wanted != nil && (wanted.UID != nil && *wanted.UID != held.GetUID() ||
		wanted.ResourceVersion != nil && *wanted.ResourceVersion != held.GetResourceVersion()) {
		refuse(w, http.StatusConflict, "Conflict", p.collection+" "+p.name)
		return
	}
	delete(s.objects, placeOf(p.collection, p.namespace, p.name))
	sendJSON(w, http.StatusOK, held)
}

func (s *Spoke) update(w http.ResponseWriter, r *http.Request, p spokePath, held *unstructured.Unstructured) {
	var given map[string]any
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	next := &unstructured.Unstructured{Object: given}
	if next.GetResourceVersion() != "" && next.GetResourceVersion() != held.GetResourceVersion() {
		refuse(w, http.StatusConflict, "Conflict", p.collection+" "+p.name)
		return
	}
	if r.Method == http.MethodPatch {
		next = held.DeepCopy()
		mergeInto(next.Object, given)
	}
	if s.kinds[p.collection] != "" {
		next = customUpdate(held, next, p.sub == "status")
	}
	if p.sub == "approval" {
		conditions, _, _ := unstructured.NestedSlice(next.Object, "status", "conditions")
		next = held.DeepCopy()
		if err := unstructured.SetNestedSlice(next.Object, conditions, "status", "conditions"); err != nil {
			refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
			return
		}
	}
	s.put(p.collection, next)
	sendJSON(w, http.StatusOK, next)
}

// customUpdate returns a custom resource after an update of it or of its status. Each leaves the
// other as it is, and the generation counts the changes of the spec.
func customUpdate(held, next *unstructured.Unstructured, status bool) *unstructured.Unstructured {
	to, from := next, held
	if status {
		to, from = held.DeepCopy(), next
	}
	delete(to.Object, "status")
	if value, there := from.Object["status"]; there {
		to.Object["status"] = value
	}
	generation := held.GetGeneration()
	if !reflect.DeepEqual(held.Object["spec"], to.Object["spec"]) {
		generation++
	}
	to.SetGeneration(generation)
	return to
}

// Change changes a custom resource as a controller of the cluster does. It reports whether the
// object exists.
func (s *Spoke) Change(collection, namespace, name string, change func(*unstructured.Unstructured)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.objects[placeOf(collection, namespace, name)]
	if held == nil {
		return false
	}
	next := held.DeepCopy()
	change(next)
	s.put(collection, customUpdate(held, next, false))
	return true
}

// Objects returns copies of the objects of a collection in a namespace, in the order of their
// names.
func (s *Spoke) Objects(collection, namespace string) (all []*unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, place := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(place, collection+"|"+namespace+"|") {
			all = append(all, s.objects[place].DeepCopy())
		}
	}
	return all
}

// mergeInto applies a JSON merge patch (RFC 7386).
func mergeInto(to, patch map[string]any) {
	for name, value := range patch {
		below, isObject := value.(map[string]any)
		held, wasObject := to[name].(map[string]any)
		switch {
		case value == nil:
			delete(to, name)
		case isObject && wasObject:
			mergeInto(held, below)
		default:
			to[name] = value
		}
	}
}

func sendJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // the client has closed the connection
	}
}

func refuse(w http.ResponseWriter, code int, reason, what string) {
	sendJSON(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
		"reason": strings.ReplaceAll(reason, " ", ""), "message": strings.TrimSpace(reason + " " + what), "code": code})
}

// Remove deletes an object.
func (s *Spoke) Remove(collection, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, placeOf(collection, namespace, name))
}
