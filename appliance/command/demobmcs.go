package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/bmc"
	"landfall/appliance/command/remote"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/redfish"
	"landfall/web/console"
)

const (
	demoInfraEnv = "servers" // infra-env of the simulated servers
	demoUser     = "root"
	demoPassword = "demo"
	firstServer  = 101 // number of the first server, above the numbers of the demo's hosts
)

// Profiles of the simulated servers' BMCs, in rotation.
var demoProfiles = []string{"dell-idrac9", "hpe-ilo6", "supermicro-x12", "lenovo-xcc", "ami-megarac"}

// demoServers are simulated servers with BMCs. They have power, and nothing runs on them until a
// user boots them.
type demoServers struct {
	machines *simulate.Servers
	bmcs     []*redfish.BMC
	macs     []string
}

// serveBMCs runs simulated servers until the context ends and adds them to the appliance.
func (d *demo) serveBMCs(ctx context.Context, site *demoSite, address, dataDir string,
	logger *slog.Logger) (err error) {
	servers := &demoServers{machines: &simulate.Servers{First: firstServer, Speed: d.speed, Faults: d.parsedFaults,
		Logger: logger, Spokes: site.spokes}}
	defer func() { err = errors.Join(err, servers.close()) }()
	for i := range d.bmcs {
		if err := servers.add(i, dataDir, logger); err != nil {
			return err
		}
	}
	refused, err := servers.register(ctx, clientAt(address))
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("add the simulated servers: %w", err)
	}
	for _, sentence := range refused {
		d.print("%s\n", sentence)
	}
	d.print("  BMCs   landfall bmc list --url %s   lists %d simulated servers; landfall bmc boot --url %s server-1   "+
		"boots one\n", address, d.bmcs, address)
	<-ctx.Done()
	return nil
}

// add starts the BMC of one more server.
func (s *demoServers) add(i int, directory string, logger *slog.Logger) error {
	mac := fmt.Sprintf("52:54:00:de:30:%02x", i+1)
	s.macs = append(s.macs, mac)
	s.machines.Planned = append(s.machines.Planned, simulate.Planned{Hostname: fmt.Sprintf("server-%d", i+1), MAC: mac})
	profile, _ := redfish.ProfileByName(demoProfiles[i%len(demoProfiles)])
	ended := func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil {
			logger.Warn("A simulated server stopped with an error.", "server", i+1, "error", err)
		}
	}
	controller := redfish.New(redfish.Options{
		Profile: profile, Username: demoUser, Password: demoPassword, MACs: []string{mac},
		Serial: fmt.Sprintf("DEMO%04d", i+1),
		UUID:   fmt.Sprintf("de300000-0000-4000-8000-%012d", i+1), Dir: directory, Logger: logger,
		Boot: func(ctx context.Context, image *redfish.Image) {
			ended(ctx, s.machines.Boot(ctx, firstServer+i, image.Path))
		},
		FromDisk: func(ctx context.Context) { ended(ctx, s.machines.FromDisk(ctx, firstServer+i)) },
	})
	if err := controller.Listen("127.0.0.1:0", nil); err != nil {
		return err
	}
	s.bmcs = append(s.bmcs, controller)
	return nil
}

func (s *demoServers) close() error {
	var errs []error
	for _, controller := range s.bmcs {
		errs = append(errs, controller.Close())
	}
	s.machines.Close()
	return errors.Join(errs...)
}

// register adds the servers and their infra-env to the appliance. If a kept data directory already
// contains a server, it updates the address of the server's BMC. A new address needs the password
// again. The sentences are about servers that the appliance refuses, because a BareMetalHost or a
// server of another name has the machine by now.
func (s *demoServers) register(ctx context.Context, api *client) (sentences []string, err error) {
	infraEnvID, err := demoServersInfraEnv(ctx, api)
	if err != nil {
		return nil, err
	}
	var known struct {
		BMCs []*bmc.Server `json:"bmcs"`
	}
	if err := api.call(ctx, http.MethodGet, console.BMCsRoute, nil, &known); err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, server := range known.BMCs {
		ids[server.Name] = server.ID
	}
	for i, controller := range s.bmcs {
		name, address := fmt.Sprintf("server-%d", i+1), "redfish-virtualmedia+"+controller.URL()
		if id := ids[name]; id != "" {
			err = api.call(ctx, http.MethodPatch, console.BMCsRoute+"/"+url.PathEscape(id),
				&console.BMCUpdate{Address: &address, Username: conv.Pointer(demoUser),
					Password: conv.Pointer(demoPassword)}, nil)
		} else {
			err = api.call(ctx, http.MethodPost, console.BMCsRoute, &console.BMCCreate{
				Name: name, Address: address, Username: demoUser, Password: demoPassword, BootMAC: s.macs[i],
				InfraEnvID: infraEnvID,
			}, nil)
		}
		refused, ok := errors.AsType[*remote.RefusedError](err)
		switch {
		case ok && refused.Status == http.StatusConflict:
			sentences = append(sentences, fmt.Sprintf("The simulated server %s was neither added nor "+
				"changed. %s Its BMC now has the address %s.", name, refused.Reason, address))
		case err != nil:
			return nil, err
		}
	}
	return sentences, nil
}

// demoServersInfraEnv returns the infra-env of the servers. It belongs to no cluster; the servers
// are bound to a cluster after their boot.
func demoServersInfraEnv(ctx context.Context, api *client) (string, error) {
	var known []*models.InfraEnv
	if err := api.call(ctx, http.MethodGet, apiPath+"/infra-envs", nil, &known); err != nil {
		return "", err
	}
	for _, env := range known {
		if conv.Value(env.Name) == demoInfraEnv {
			return env.ID.String(), nil
		}
	}
	env := new(models.InfraEnv)
	params := &models.InfraEnvCreateParams{Name: conv.Pointer(demoInfraEnv), PullSecret: conv.Pointer(demoPullSecret),
		ImageType: models.ImageTypeFullIso}
	err := api.call(ctx, http.MethodPost, apiPath+"/infra-envs", params, env)
	if err != nil {
		return "", err
	}
	return env.ID.String(), nil
}
