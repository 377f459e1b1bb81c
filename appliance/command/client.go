package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/spf13/pflag"

	"landfall/web/api"
)

const defaultURL = "http://127.0.0.1:8090"

// client calls the REST API of a running appliance.
type client struct {
	url  string
	http http.Client
}

func (c *client) addFlag(flags *pflag.FlagSet) {
	flags.StringVar(&c.url, "url", defaultURL, "URL of the running appliance")
}

// AddFlags and Call make the client available to the subpackages of commands.
func (c *client) AddFlags(flags *pflag.FlagSet) { c.addFlag(flags) }

func (c *client) Call(ctx context.Context, method, path string, in, out any) error {
	return c.call(ctx, method, path, in, out)
}

// call sends in as JSON (nil for no body) to a path below the appliance's URL and decodes the
// answer into out (nil to ignore it; *[]byte for the raw bytes).
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	body := []byte(nil)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	return c.send(ctx, method, path, "application/json", bytes.NewReader(body), out)
}

// send is like call, with a body of any content type.
func (c *client) send(ctx context.Context, method, path, contentType string, body io.Reader, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.url, "/")+path, body)
	if err != nil {
		return fmt.Errorf("--url %s is invalid: %w; expected a URL such as %s", c.url, err, defaultURL)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := c.http.Do(request)
	if err != nil {
		return c.unreachable(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("read the response of %s: %w", c.url, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return refusal(method, path, response.Status, answer)
	}
	return read(answer, out)
}

func read(answer []byte, out any) error {
	switch target := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*target = answer
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the response does not match the API: %w; check whether another service has this URL", err)
	}
	return nil
}

func (c *client) unreachable(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("no appliance listens at %s; start one with landfall serve, or name its address with --url",
			c.url)
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err
	}
	return fmt.Errorf("the appliance at %s cannot be reached (%w); check --url", c.url, err)
}

// refusal returns the message in an API error of any format.
func refusal(method, path, status string, answer []byte) error {
	var shape struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(answer, &shape); err != nil || shape.Reason+shape.Message == "" {
		return fmt.Errorf("the appliance answered %s to %s %s", status, method, path)
	}
	return errors.New(shape.Reason + shape.Message)
}

const apiPath = api.BasePath + "/v2"

func (c *client) clusters(ctx context.Context) ([]*models.Cluster, error) {
	var clusters []*models.Cluster
	return clusters, c.call(ctx, http.MethodGet, apiPath+"/clusters", nil, &clusters)
}

// resolve replaces the name of a cluster with its ID. IDs and "" remain unchanged.
func (c *client) resolve(ctx context.Context, wanted *string) error {
	if _, err := uuid.Parse(*wanted); err == nil || *wanted == "" {
		return nil
	}
	clusters, err := c.clusters(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, cluster := range clusters {
		if cluster.Name == *wanted {
			ids = append(ids, cluster.ID.String())
		}
	}
	switch len(ids) {
	case 0:
		return fmt.Errorf("the cluster %s does not exist; landfall clusters lists all clusters", *wanted)
	case 1:
		*wanted = ids[0]
		return nil
	default:
		return fmt.Errorf("%d clusters have the name %s; give the ID from landfall clusters", len(ids), *wanted)
	}
}

// resolveOne is like resolve, but returns an error for "".
func (c *client) resolveOne(ctx context.Context, wanted *string) error {
	if *wanted == "" {
		return usage("--cluster is missing; landfall clusters lists all clusters")
	}
	return c.resolve(ctx, wanted)
}

func (c *client) cluster(ctx context.Context, id string) (*models.Cluster, error) {
	cluster := new(models.Cluster)
	return cluster, c.call(ctx, http.MethodGet, apiPath+"/clusters/"+url.PathEscape(id), nil, cluster)
}
