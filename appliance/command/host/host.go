// Package host has the commands on hosts.
package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/web/console"
)

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Show, change, bind and remove hosts",
		Long: "Show, change, bind and remove the hosts that booted a discovery image. A host is named by its " +
			"name, its " +
			"ID, or the first eight\ncharacters of its ID.",
	}
	cmd.AddCommand(newList(), newShow(), newBind(), newUnbind(), newSet(), newApprove(), newInstall(), newReset(),
		newRemove(), newMissing())
	return cmd
}

// row is a host with its inventory.
type row struct {
	models.Host
	inventory models.Inventory
}

// UnmarshalJSON decodes a host. The API sends its inventory as text.
func (r *row) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &r.Host); err != nil {
		return err
	}
	if r.Inventory == "" {
		return nil
	}
	return json.Unmarshal([]byte(r.Inventory), &r.inventory)
}

func (r *row) name() string {
	host := remote.Host{ID: conv.Value((*string)(r.ID)), Requested: r.RequestedHostname, Inventory: r.Inventory}
	return host.Name()
}

func (r *row) stage() string {
	if r.Progress == nil {
		return ""
	}
	return strings.TrimSpace(string(r.Progress.CurrentStage) + " " + r.Progress.ProgressInfo)
}

func (r *row) addresses() string {
	var all []string
	for _, nic := range r.inventory.Interfaces {
		for _, address := range append(nic.IPV4Addresses, nic.IPV6Addresses...) {
			all = append(all, strings.Split(address, "/")[0])
		}
	}
	return strings.Join(all, ",")
}

func (r *row) disks() string {
	var total int64
	for _, disk := range r.inventory.Disks {
		total += disk.SizeBytes
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d: %s", len(r.inventory.Disks), output.Size(total))
}

func (r *row) cpus() string {
	if r.inventory.CPU == nil {
		return ""
	}
	return fmt.Sprint(r.inventory.CPU.Count)
}

func (r *row) memory() string {
	if r.inventory.Memory == nil {
		return ""
	}
	return output.Size(r.inventory.Memory.PhysicalBytes)
}

func (r *row) lastContact() string {
	return output.Time(time.Time(r.CheckedInAt))
}

func kind(clusters, infraEnvs map[string]string) *output.Kind[row] {
	type column = output.Column[row]
	return &output.Kind[row]{
		Name: "host", Empty: "No hosts. Boot them from an image; landfall image download downloads one.",
		NameOf: (*row).name,
		Columns: []column{
			{Title: "NAME", Value: (*row).name},
			{Title: "CLUSTER", Value: func(r *row) string { return clusters[string(conv.Value(r.ClusterID))] }},
			{Title: "ROLE", Value: func(r *row) string { return string(r.Role) }},
			{Title: "STATUS", State: true, Value: func(r *row) string { return conv.Value(r.Status) }},
			{Title: "STAGE", Value: (*row).stage},
			{Title: "CPUS", Value: (*row).cpus},
			{Title: "MEMORY", Value: (*row).memory},
			{Title: "ADDRESSES", Value: (*row).addresses},
			{Title: "DISKS", Wide: true, Value: (*row).disks},
			{Title: "INFRA-ENV", Wide: true, Value: func(r *row) string { return infraEnvs[string(r.InfraEnvID)] }},
			{Title: "LAST CONTACT", Wide: true, Value: (*row).lastContact},
			{Title: "ID", Wide: true, Value: func(r *row) string { return conv.Value((*string)(r.ID)) }},
			{Title: "INFO", Wide: true, Value: func(r *row) string { return conv.Value(r.StatusInfo) }},
		},
	}
}

// namesOf returns the names of the objects of a list by their IDs.
func namesOf(cmd *cobra.Command, a *action.Action, path string) (map[string]string, error) {
	var all []struct{ ID, Name string }
	if err := a.Call(cmd.Context(), http.MethodGet, remote.APIPath+path, nil, &all); err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, one := range all {
		names[one.ID] = one.Name
	}
	return names, nil
}

func kindWithNames(cmd *cobra.Command, a *action.Action) (*output.Kind[row], error) {
	clusters, err := namesOf(cmd, a, "/clusters")
	if err != nil {
		return nil, err
	}
	infraEnvs, err := namesOf(cmd, a, "/infra-envs")
	if err != nil {
		return nil, err
	}
	return kind(clusters, infraEnvs), nil
}

func newList() *cobra.Command {
	a := action.New()
	var cluster, infraEnv string
	cmd := a.Listing(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List hosts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			clusterID, infraEnvID := "", ""
			if cluster != "" {
				if clusterID, err = a.ClusterID(ctx, cluster); err != nil {
					return err
				}
			}
			if infraEnv != "" {
				if infraEnvID, err = a.InfraEnvID(ctx, infraEnv); err != nil {
					return err
				}
			}
			shown, err := kindWithNames(cmd, a)
			if err != nil {
				return err
			}
			return action.List(cmd, a, shown, func() (json.RawMessage, error) {
				hosts, err := a.Hosts(ctx, infraEnvID)
				if err != nil {
					return nil, err
				}
				list := []json.RawMessage{}
				for _, host := range hosts {
					if clusterID == "" || host.ClusterID == clusterID {
						list = append(list, host.JSON)
					}
				}
				return json.Marshal(list)
			}, "hosts")
		},
	})
	cmd.Flags().StringVar(&cluster, "cluster", "", "only those of a cluster")
	cmd.Flags().StringVar(&infraEnv, "infra-env", "", "only those of an infra-env")
	return cmd
}

// selected is the host that the argument of a command names.
type selected struct {
	*action.Action
	cluster string // of --cluster, where it selects the host
}

func newSelected() *selected { return &selected{Action: action.New()} }

func (s *selected) addFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&s.cluster, "cluster", "", "cluster of the host, if several hosts have its name")
	return cmd
}

func (s *selected) find(cmd *cobra.Command, name string) (*remote.Host, error) {
	cluster := ""
	if s.cluster != "" {
		var err error
		if cluster, err = s.ClusterID(cmd.Context(), s.cluster); err != nil {
			return nil, err
		}
	}
	return s.Host(cmd.Context(), name, cluster)
}

// change sends a request about a host and prints a sentence.
func (s *selected) change(cmd *cobra.Command, host *remote.Host, method, ending string, body action.Object,
	sentence string) error {
	if _, err := s.Send(cmd, method, remote.HostPath(host.InfraEnvID, host.ID)+ending, body); err != nil || s.DryRun {
		return err
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), sentence)
	return err
}

func newShow() *cobra.Command {
	s := newSelected()
	return s.addFlag(s.Reading(&cobra.Command{
		Use: "show NAME", Aliases: []string{"get"}, Short: "Show a host: hardware, networks, state, failed checks",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			host, err := s.find(cmd, arguments[0])
			if err != nil {
				return err
			}
			shown, err := kindWithNames(cmd, s.Action)
			if err != nil {
				return err
			}
			return shown.One(cmd.OutOrStdout(), &s.Format, host.JSON, func(d *output.Description, r *row) {
				for _, column := range shown.Columns {
					if column.State {
						d.State(title(column.Title), column.Value(r))
						continue
					}
					d.Add(title(column.Title), "%s", column.Value(r))
				}
				describeHardware(d, r)
			})
		},
	}))
}

// title returns the title of a column as the name of a property: Infra-env.
func title(column string) string {
	if column == "ID" || column == "CPUS" {
		return strings.Replace(column, "CPUS", "CPUs", 1)
	}
	return column[:1] + strings.ToLower(column[1:])
}

func describeHardware(d *output.Description, r *row) {
	if system := r.inventory.SystemVendor; system != nil {
		d.Add("Hardware", "%s", strings.Join(strings.Fields(system.Manufacturer+" "+system.ProductName+" "+
			system.SerialNumber), " "))
	}
	if len(r.inventory.Interfaces) > 0 {
		d.Heading("Network interfaces")
	}
	for _, nic := range r.inventory.Interfaces {
		d.Add(nic.Name, "%s", strings.Join(strings.Fields(nic.MacAddress+" "+strings.Join(append(nic.IPV4Addresses,
			nic.IPV6Addresses...), " ")), " "))
	}
	if len(r.inventory.Disks) > 0 {
		d.Heading("Disks")
	}
	for _, disk := range r.inventory.Disks {
		note := ""
		if disk.ID != "" && disk.ID == r.InstallationDiskID {
			note = " (installation)"
		}
		d.Add(disk.Name, "%s %s%s", output.Size(disk.SizeBytes), disk.DriveType, note)
	}
	var groups map[string][]struct{ ID, Status, Message string }
	if err := json.Unmarshal([]byte(r.ValidationsInfo), &groups); err != nil {
		return // a new host has no validations
	}
	heading := false
	for _, name := range []string{"hardware", "network", "operators"} {
		for _, one := range groups[name] {
			if one.Status != "failure" {
				continue
			}
			if !heading {
				d.Heading("What it needs")
				heading = true
			}
			d.Add(one.ID, "%s", one.Message)
		}
	}
}

func newBind() *cobra.Command {
	s := newSelected()
	cmd := s.Changing(&cobra.Command{
		Use: "bind NAME --cluster CLUSTER", Short: "Bind a host to a cluster", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if s.cluster == "" {
				return outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
			}
			id, err := s.ClusterID(cmd.Context(), s.cluster)
			if err != nil {
				return err
			}
			host, err := s.Host(cmd.Context(), arguments[0], "")
			if err != nil {
				return err
			}
			return s.change(cmd, host, http.MethodPost, "/actions/bind", action.Object{"cluster_id": id},
				fmt.Sprintf("The host %s is bound to the cluster %s.", arguments[0], s.cluster))
		},
	})
	cmd.Flags().StringVar(&s.cluster, "cluster", "", "cluster to which the host will belong")
	return cmd
}

func newUnbind() *cobra.Command {
	s := newSelected()
	return s.addFlag(s.Changing(&cobra.Command{
		Use: "unbind NAME", Short: "Release a host from its cluster", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			host, err := s.find(cmd, arguments[0])
			if err != nil {
				return err
			}
			return s.change(cmd, host, http.MethodPost, "/actions/unbind", nil,
				fmt.Sprintf("The host %s belongs to no cluster now.", arguments[0]))
		},
	}))
}

func newSet() *cobra.Command {
	s := newSelected()
	var name, role, disk string
	cmd := s.addFlag(s.Changing(&cobra.Command{
		Use:   "set NAME [FIELD=VALUE…]",
		Short: "Change the name, role or installation disk of a host",
		Long: "Change a host before its installation, by flags or by fields of the API:\n" +
			"  landfall host set host-1 --name master-0 --role master --disk sdb\n" +
			"  landfall host set host-1 'node_labels=[{key: zone, value: a}]'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if role != "" && !slices.Contains(roles(), role) {
				return outcome.Usagef("--role %q is invalid; expected one of %s", role, strings.Join(roles(), ", "))
			}
			body := action.Object{}
			host, err := s.find(cmd, arguments[0])
			if err != nil {
				return err
			}
			if name != "" {
				body["host_name"] = name
			}
			if role != "" {
				body["host_role"] = role
			}
			if disk != "" {
				id, err := diskID(host, disk)
				if err != nil {
					return err
				}
				body["disks_selected_config"] = []action.Object{{"id": id, "role": "install"}}
			}
			if err := action.Fields[models.HostUpdateParams](body, arguments[1:]); err != nil {
				return err
			}
			if len(body) == 0 {
				return outcome.Usagef("there is nothing to change; give --name, --role, --disk, or FIELD=VALUE")
			}
			answer, err := s.Send(cmd, http.MethodPatch, remote.HostPath(host.InfraEnvID, host.ID), body)
			if err != nil || s.DryRun {
				return err
			}
			return action.Answer(cmd, s.Action, kind(nil, nil), answer, fmt.Sprintf("The host %s was changed.",
				arguments[0]))
		},
	}))
	s.Format.AddFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "new name of the host")
	flags.StringVar(&role, "role", "", "role of the host: "+strings.Join(roles(), ", "))
	flags.StringVar(&disk, "disk", "", "installation disk: its name (sdb), path or ID")
	output.Choices(cmd, "role", roles()...)
	return cmd
}

// roles are the roles that a request may contain.
func roles() []string {
	return []string{string(models.HostRoleAutoAssign), string(models.HostRoleMaster), string(models.HostRoleWorker),
		string(models.HostRoleArbiter)}
}

// diskID returns the ID of a disk that is named by its name, path or ID.
func diskID(host *remote.Host, wanted string) (string, error) {
	var inventory models.Inventory
	if err := json.Unmarshal([]byte(host.Inventory), &inventory); err != nil {
		return "", fmt.Errorf("the host %s has not reported its disks yet", host.Name())
	}
	var names []string
	for _, disk := range inventory.Disks {
		if wanted == disk.Name || wanted == disk.Path || wanted == disk.ByID || wanted == disk.ByPath ||
			wanted == disk.ID {
			return disk.ID, nil
		}
		names = append(names, disk.Name)
	}
	return "", fmt.Errorf("the host %s has no disk %s; it has %s", host.Name(), wanted, strings.Join(names, ", "))
}

func newApprove() *cobra.Command {
	s := newSelected()
	return s.addFlag(s.Changing(&cobra.Command{
		Use:   "approve NAME",
		Short: "Approve a host that manifests (Kubernetes API) will install",
		Long: "Approve a host: set spec.approved of its Agent object, without which the Kubernetes API does not " +
			"install it. Hosts of clusters\nthat were created with landfall cluster create or on the page need no " +
			"approval.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			host, err := s.find(cmd, arguments[0])
			if err != nil {
				return err
			}
			path := fmt.Sprintf("%s/infra-envs/%s/hosts/%s/actions/approve", console.BasePath,
				url.PathEscape(host.InfraEnvID), url.PathEscape(host.ID))
			if _, err := s.Send(cmd, http.MethodPost, path, nil); err != nil || s.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The host %s is approved.\n", arguments[0])
			return err
		},
	}))
}

func newInstall() *cobra.Command {
	s := newSelected()
	return s.addFlag(s.Changing(&cobra.Command{
		Use: "install NAME", Short: "Install a host that joins an installed cluster", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			host, err := s.find(cmd, arguments[0])
			if err != nil {
				return err
			}
			return s.change(cmd, host, http.MethodPost, "/actions/install", nil,
				fmt.Sprintf("The installation of the host %s has started.", arguments[0]))
		},
	}))
}

func newReset() *cobra.Command {
	s := newSelected()
	return s.addFlag(s.Removing(&cobra.Command{
		Use: "reset NAME", Short: "Prepare a host that joins an installed cluster for another installation",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			host, err := s.find(cmd, arguments[0])
			if err != nil {
				return err
			}
			effect := "The installation of " + arguments[0] + " stops, and the host must boot the image again."
			if err := s.Confirm(cmd, arguments[0], effect); err != nil {
				return err
			}
			return s.change(cmd, host, http.MethodPost, "/actions/reset", nil,
				fmt.Sprintf("The host %s was reset. Boot it from the image again.", arguments[0]))
		},
	}))
}

func newRemove() *cobra.Command {
	s := newSelected()
	return s.addFlag(s.Removing(&cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm", "delete"}, Short: "Remove a host from the appliance",
		Long: "Remove a host from the appliance. A host that still runs the image registers again.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			host, err := s.find(cmd, arguments[0])
			if err != nil {
				return err
			}
			effect := "The appliance forgets the host " + arguments[0] + ". The machine itself is not changed."
			if err := s.Confirm(cmd, arguments[0], effect); err != nil {
				return err
			}
			return s.change(cmd, host, http.MethodDelete, "", nil,
				fmt.Sprintf("The host %s was "+
					"removed.", arguments[0]))
		},
	}))
}
