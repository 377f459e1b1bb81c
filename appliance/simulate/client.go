package simulate

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/client/operators"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/roots"
)

const (
	// requestTimeout limits the time until a response starts, in real time.
	requestTimeout = time.Minute
	// connectionsPerHost limits the connections of a whole group. Its hosts share them.
	connectionsPerHost = 256
	// errorBodyLimit limits the part of an error response that is read for its reason, in bytes.
	errorBodyLimit = 16 << 10
)

// RequestError reports a request that was rejected or got no response.
type RequestError struct {
	// Operation describes the request.
	Operation string
	// Status is the HTTP status of the response; 0 if there was no response.
	Status int
	// Reason is the text of the response; it may be empty.
	Reason string
	// Err is the cause.
	Err error
}

// Error returns the request and the response.
func (e *RequestError) Error() string {
	switch {
	case e.Status == 0:
		return fmt.Sprintf("%s: no response: %v", e.Operation, e.Err)
	case e.Reason != "":
		return fmt.Sprintf("%s: the appliance returned %d: %s", e.Operation, e.Status, e.Reason)
	default:
		return fmt.Sprintf("%s: the appliance returned %d: %v", e.Operation, e.Status, e.Err)
	}
}

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// statusOf returns the HTTP status in an error, or 0.
func statusOf(err error) int {
	var refused *RequestError
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}

// connection is a connection to one appliance with one token. Hosts with the same token share it.
// It uses the generated clients directly, because the upstream client that combines them as
// interfaces would link all their operations.
type connection struct {
	installer *installer.Client
	operator  *operators.Client
	http      *http.Client
	base      *url.URL
}

// basePath is the path of the API (the upstream client's DefaultBasePath).
const basePath = "/api/assisted-install"

// newConnection returns a connection to the appliance at base, its root URL. The agent sends the
// token as X-Secret-Key.
func newConnection(base *url.URL, token string, transport http.RoundTripper) *connection {
	return connectionOf(base, &carrier{base: transport, agent: true, token: token})
}

// newOperator returns a connection of the person who starts simulated hosts. The bearer token is ""
// if the appliance does not authenticate people.
func newOperator(base *url.URL, bearer string, transport http.RoundTripper) *connection {
	return connectionOf(base, &carrier{base: transport, bearer: bearer})
}

func connectionOf(base *url.URL, carrier *carrier) *connection {
	runtime := client.New(base.Host, strings.TrimRight(base.Path, "/")+basePath, []string{base.Scheme})
	runtime.Transport = carrier
	return &connection{
		installer: installer.New(runtime, strfmt.Default, nil),
		operator:  operators.New(runtime, strfmt.Default, nil),
		http:      &http.Client{Transport: carrier},
		base:      base,
	}
}

// newTransport returns the transport that all hosts of a group share. It trusts the given CA (PEM)
// in addition to the system's CAs.
func newTransport(base http.RoundTripper, ca string) (http.RoundTripper, error) {
	if base == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.MaxConnsPerHost = connectionsPerHost,
			connectionsPerHost, connectionsPerHost
		transport.ResponseHeaderTimeout = requestTimeout
		base = transport
	}
	if ca == "" {
		return base, nil
	}
	transport, isPlain := base.(*http.Transport)
	if !isPlain {
		return base, nil
	}
	pool, ok := roots.With([]byte(ca))
	if !ok {
		return nil, errors.New("the CA certificate in the discovery config is not PEM")
	}
	transport = transport.Clone()
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.TLSClientConfig.RootCAs = pool
	return transport, nil
}

// carrier sends the requests of all hosts. It adds the agent's headers, stores the status and
// reason of a rejection, and drops a request if the host's link is down.
type carrier struct {
	base   http.RoundTripper
	agent  bool // sends the token, also an empty one, as a real agent does
	token  string
	bearer string // of a person or a program
}

var errLinkDown = errors.New("the host's link is down")

func (c *carrier) RoundTrip(request *http.Request) (*http.Response, error) {
	if l, ok := request.Context().Value(linkKey{}).(*link); ok && l.down() {
		return nil, errors.Join(errLinkDown, closeBody(request.Body))
	}
	request = request.Clone(request.Context())
	request.Header.Set("X-Request-Id", uuid.NewString())
	if c.agent {
		request.Header.Set("X-Secret-Key", c.token)
	}
	if c.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	response, err := c.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if answer, ok := request.Context().Value(answerKey{}).(*answer); ok {
		answer.status = response.StatusCode
		if response.StatusCode >= http.StatusBadRequest {
			response.Body, answer.reason = readReason(response.Body)
		} else if response.StatusCode != http.StatusSwitchingProtocols {
			response.Body = &partial{response.Body, answer}
		}
	}
	return response, nil
}

// partial is the body of an answer. One that breaks off is no response: the request is repeated.
type partial struct {
	io.ReadCloser
	of *answer
}

// Read implements io.Reader.
func (p *partial) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.of.status = 0
	}
	return n, err
}

func closeBody(body io.ReadCloser) error {
	if body == nil {
		return nil
	}
	return body.Close()
}

// readReason reads the text of an error response (models.Error, models.InfraError or plain text).
// It returns a body that can be read again.
func readReason(body io.ReadCloser) (io.ReadCloser, string) {
	text, err := io.ReadAll(io.LimitReader(body, errorBodyLimit))
	rest := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), body), body}
	if err != nil {
		return rest, ""
	}
	var refusal struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(text, &refusal); err != nil {
		return rest, strings.TrimSpace(string(text))
	}
	return rest, refusal.Reason + refusal.Message
}

type answerKey struct{}

type answer struct {
	status int
	reason string
}

// call runs a request of the generated client and converts its error to a RequestError.
func call(ctx context.Context, operation string, do func(context.Context) error) error {
	var answer answer
	err := do(context.WithValue(ctx, answerKey{}, &answer))
	if err == nil {
		return nil
	}
	return &RequestError{Operation: operation, Status: answer.status, Reason: answer.reason, Err: err}
}

type linkKey struct{}

// link is a host's network link. A fault can cut it temporarily.
type link struct {
	clock clockwork.Clock

	mu     sync.Mutex
	cutTil time.Time
}

func (l *link) cut(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutTil = l.clock.Now().Add(d)
}

func (l *link) down() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.Now().Before(l.cutTil)
}

// hostRef identifies a host in the API.
type hostRef struct {
	infraEnv strfmt.UUID
	host     strfmt.UUID
}

func (c *connection) imageURL(ctx context.Context, infraEnv strfmt.UUID) (string, error) {
	var found string
	err := call(ctx, "request the discovery image's URL", func(ctx context.Context) error {
		response, err := c.installer.GetInfraEnvDownloadURL(ctx,
			&installer.GetInfraEnvDownloadURLParams{InfraEnvID: infraEnv})
		if err == nil && response.Payload.URL != nil {
			found = *response.Payload.URL
		}
		return err
	})
	if err != nil || found != "" {
		return found, err
	}
	return "", errors.New("request the discovery image's URL: the response contains no URL")
}

func (c *connection) host(ctx context.Context, ref hostRef) (*models.Host, error) {
	var found *models.Host
	err := call(ctx, "read the host", func(ctx context.Context) error {
		response, err := c.installer.V2GetHost(ctx, &installer.V2GetHostParams{InfraEnvID: ref.infraEnv,
			HostID: ref.host})
		if err == nil {
			found = response.Payload
		}
		return err
	})
	return found, err
}

// listedHost returns a host of the list of its infra-env, or nil. Unlike the operation on a single
// host, machines may use the list.
func (c *connection) listedHost(ctx context.Context, ref hostRef) (*models.Host, error) {
	var found *models.Host
	err := call(ctx, "list the infra-env's hosts", func(ctx context.Context) error {
		response, err := c.installer.V2ListHosts(ctx, &installer.V2ListHostsParams{InfraEnvID: ref.infraEnv})
		if err != nil {
			return err
		}
		for _, host := range response.Payload {
			if *host.ID == ref.host {
				found = host
			}
		}
		return nil
	})
	return found, err
}

func (c *connection) register(ctx context.Context, ref hostRef,
	agentImage string) (*models.HostRegistrationResponse, error) {
	var registered *models.HostRegistrationResponse
	err := call(ctx, "register the host", func(ctx context.Context) error {
		response, err := c.installer.V2RegisterHost(ctx, &installer.V2RegisterHostParams{
			InfraEnvID: ref.infraEnv, DiscoveryAgentVersion: &agentImage,
			NewHostParams: &models.HostCreateParams{HostID: &ref.host, DiscoveryAgentVersion: agentImage},
		})
		if err == nil {
			registered = response.Payload
		}
		return err
	})
	return registered, err
}

func (c *connection) instructions(ctx context.Context, ref hostRef, agentImage string,
	hostTime time.Time) (*models.Steps, error) {
	var steps *models.Steps
	timestamp := hostTime.Unix()
	err := call(ctx, "poll for instructions", func(ctx context.Context) error {
		response, err := c.installer.V2GetNextSteps(ctx, &installer.V2GetNextStepsParams{
			InfraEnvID: ref.infraEnv, HostID: ref.host, DiscoveryAgentVersion: &agentImage, Timestamp: &timestamp,
		})
		if err == nil {
			steps = response.Payload
		}
		return err
	})
	return steps, err
}

func (c *connection) reply(ctx context.Context, ref hostRef, agentImage string, reply *models.StepReply) error {
	return call(ctx, "send the reply to step "+reply.StepID, func(ctx context.Context) error {
		_, err := c.installer.V2PostStepReply(ctx, &installer.V2PostStepReplyParams{
			InfraEnvID: ref.infraEnv, HostID: ref.host, DiscoveryAgentVersion: &agentImage, Reply: reply,
		})
		return err
	})
}

func (c *connection) progress(ctx context.Context, ref hostRef, stage models.HostStage, info string) error {
	return call(ctx, fmt.Sprintf("report the stage %q", stage), func(ctx context.Context) error {
		_, err := c.installer.V2UpdateHostInstallProgress(ctx, &installer.V2UpdateHostInstallProgressParams{
			InfraEnvID: ref.infraEnv, HostID: ref.host, HostProgress: &models.HostProgress{CurrentStage: stage,
				ProgressInfo: info},
		})
		return err
	})
}

func (c *connection) hostIgnition(ctx context.Context, ref hostRef, into io.Writer) error {
	return call(ctx, "download the host's ignition config", func(ctx context.Context) error {
		_, err := c.installer.V2DownloadHostIgnition(ctx,
			&installer.V2DownloadHostIgnitionParams{InfraEnvID: ref.infraEnv, HostID: ref.host}, into)
		return err
	})
}

func (c *connection) clusterFile(ctx context.Context, cluster strfmt.UUID, name string, into io.Writer) error {
	return call(ctx, "download the cluster's "+name, func(ctx context.Context) error {
		_, err := c.installer.V2DownloadClusterFiles(ctx, &installer.V2DownloadClusterFilesParams{ClusterID: cluster,
			FileName: name}, into)
		return err
	})
}

func (c *connection) credentials(ctx context.Context, cluster strfmt.UUID, name string, into io.Writer) error {
	return call(ctx, "download the cluster's "+name, func(ctx context.Context) error {
		_, err := c.installer.V2DownloadClusterCredentials(ctx,
			&installer.V2DownloadClusterCredentialsParams{ClusterID: cluster, FileName: name}, into)
		return err
	})
}

func (c *connection) cluster(ctx context.Context, id strfmt.UUID, withHosts bool) (*models.Cluster, error) {
	var found *models.Cluster
	exclude := !withHosts
	err := call(ctx, "read the cluster", func(ctx context.Context) error {
		response, err := c.installer.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: id,
			ExcludeHosts: &exclude})
		if err == nil {
			found = response.Payload
		}
		return err
	})
	return found, err
}

func (c *connection) clusterHosts(ctx context.Context, id strfmt.UUID, role models.HostRole) (models.HostList, error) {
	var found models.HostList
	wanted := string(role)
	err := call(ctx, "read the cluster's hosts", func(ctx context.Context) error {
		response, err := c.installer.ListClusterHosts(ctx, &installer.ListClusterHostsParams{ClusterID: id,
			Role: &wanted})
		if err == nil {
			found = response.Payload
		}
		return err
	})
	return found, err
}

// uploadLogs sends an archive of a host (ref set) or of the controller (ref nil).
func (c *connection) uploadLogs(ctx context.Context, cluster strfmt.UUID, ref *hostRef, archive []byte) error {
	params := &installer.V2UploadLogsParams{ClusterID: cluster, LogsType: string(models.LogsTypeController)}
	name := "controller_logs.tar.gz"
	if ref != nil {
		params.LogsType, params.HostID, params.InfraEnvID = string(models.LogsTypeHost), &ref.host, &ref.infraEnv
		name = "logs.tar.gz"
	}
	return call(ctx, "upload the logs", func(ctx context.Context) error {
		params.Upfile = upload{Reader: bytes.NewReader(archive), name: name}
		_, err := c.installer.V2UploadLogs(ctx, params)
		return err
	})
}

// upload is a file of a multipart request.
type upload struct {
	*bytes.Reader
	name string
}

func (u upload) Name() string { return u.name }
func (u upload) Close() error { return nil }

func (c *connection) hostLogsProgress(ctx context.Context, ref hostRef, state models.LogsState) error {
	return call(ctx, "report the state of the host's logs", func(ctx context.Context) error {
		_, err := c.installer.V2UpdateHostLogsProgress(ctx, &installer.V2UpdateHostLogsProgressParams{
			InfraEnvID: ref.infraEnv, HostID: ref.host,
			LogsProgressParams: &models.LogsProgressParams{LogsState: &state},
		})
		return err
	})
}

func (c *connection) clusterLogsProgress(ctx context.Context, cluster strfmt.UUID, state models.LogsState) error {
	return call(ctx, "report the state of the cluster's logs", func(ctx context.Context) error {
		_, err := c.installer.V2UpdateClusterLogsProgress(ctx, &installer.V2UpdateClusterLogsProgressParams{
			ClusterID: cluster, LogsProgressParams: &models.LogsProgressParams{LogsState: &state},
		})
		return err
	})
}

func (c *connection) finalizingStage(ctx context.Context, cluster strfmt.UUID, stage models.FinalizingStage) error {
	return call(ctx, fmt.Sprintf("report the finalizing stage %q", stage), func(ctx context.Context) error {
		_, err := c.installer.V2UpdateClusterFinalizingProgress(ctx, &installer.V2UpdateClusterFinalizingProgressParams{
			ClusterID: cluster, FinalizingProgress: &models.ClusterFinalizingProgress{FinalizingStage: stage},
		})
		return err
	})
}

func (c *connection) ingressCertificate(ctx context.Context, cluster strfmt.UUID, certificate string) error {
	return call(ctx, "upload the ingress certificate", func(ctx context.Context) error {
		_, err := c.installer.V2UploadClusterIngressCert(ctx, &installer.V2UploadClusterIngressCertParams{
			ClusterID: cluster, IngressCertParams: models.IngressCertParams(certificate),
		})
		return err
	})
}

func (c *connection) completeInstallation(ctx context.Context, cluster strfmt.UUID,
	completion *models.CompletionParams) error {
	return call(ctx, "report the result of the installation", func(ctx context.Context) error {
		_, err := c.installer.V2CompleteInstallation(ctx, &installer.V2CompleteInstallationParams{ClusterID: cluster,
			CompletionParams: completion})
		return err
	})
}

func (c *connection) operators(ctx context.Context, cluster strfmt.UUID) (models.MonitoredOperatorsList, error) {
	var found models.MonitoredOperatorsList
	err := call(ctx, "read the monitored operators", func(ctx context.Context) error {
		response, err := c.operator.V2ListOfClusterOperators(ctx,
			&operators.V2ListOfClusterOperatorsParams{ClusterID: cluster})
		if err == nil {
			found = response.Payload
		}
		return err
	})
	return found, err
}

func (c *connection) reportOperator(ctx context.Context, cluster strfmt.UUID,
	report *models.OperatorMonitorReport) error {
	return call(ctx, "report the operator "+report.Name, func(ctx context.Context) error {
		_, err := c.operator.V2ReportMonitoredOperatorStatus(ctx,
			&operators.V2ReportMonitoredOperatorStatusParams{ClusterID: cluster, ReportParams: report})
		return err
	})
}
