package config

import (
	"strings"

	"landfall/appliance/engine/lifecycle"
)

// help explains the keys that are not limits of the engine, for the flags.
var help = map[string]string{
	"listen": "address and port of the server (HTTPS; plain HTTP from this machine)",
	"boot_listen": "address and port of a second server, in plain HTTP, for images and boot files only; none: no " +
		"such server; default: with TLS the next port after that of listen (8091), without TLS none",
	"url": "URLs of the appliance for hosts and management controllers, the preferred one first; " +
		"default: derived from the machine's addresses",
	"tls.enabled": "serve HTTPS; the appliance makes its own certificate authority unless other certificates are given",
	"tls.cert_file": "certificate (PEM) of the server, followed by the certificates that signed it; read again when " +
		"it changes",
	"tls.key_file": "private key (PEM) of tls.cert_file; read again when it changes",
	"tls.ca_file": "CA certificates (PEM) with which hosts verify tls.cert_file or the certificate from " +
		"tls.acme.directory; default: the end of the chain in tls.cert_file",
	"tls.acme.directory": "URL of the ACME directory of the site's CA, from which the appliance gets its " +
		"certificate",
	"tls.acme.ca_file":      "CA certificates (PEM) for the connection to the directory, on top of the system's",
	"tls.acme.email":        "contact for the site's CA",
	"tls.acme.eab_key_id":   "key ID of the external account binding that the site's CA requires",
	"tls.acme.eab_key_file": "file with the HMAC key (base64url) of the external account binding",
	"tls.client_ca_file": "CA certificates (PEM) of the authorities whose client certificates programs may use; read " +
		"again when it changes; default: none, programs use tokens",
	"tls.client_crl_file": "certificate revocation lists (PEM or DER) of these authorities; read again when it " +
		"changes; default: none",
	"tls.client_roles.admin":    "organizations (O) of client certificates whose programs are administrators",
	"tls.client_roles.operator": "organizations (O) of client certificates whose programs are operators",
	"tls.client_roles.viewer":   "organizations (O) of client certificates whose programs are viewers",
	"tls.client_group_scopes": "clusters and infra-envs to which the programs of organizations (O) are limited, as " +
		"YAML",

	"data_dir": "directory of the database, the generated files and the cached installers",
	"auth": "local: clients must authenticate; none: every client may do everything, and the default of listen " +
		"is 127.0.0.1:8090",
	"allowed_hosts": "names under which clients may address the appliance, in addition to its addresses, the " +
		"machine's name and the names in url",
	"sessions.idle":  "time without a request after which a person must log in again",
	"sessions.total": "time after which a person must log in again in any case",

	"oidc.issuer":             "URL of the OpenID Connect provider with which people log in; default: none",
	"oidc.client_id":          "ID under which the provider knows this appliance",
	"oidc.client_secret_file": "file of mode 0600 with the client's secret; default: none, for a public client",
	"oidc.scopes":             "scopes of a login in addition to openid",
	"oidc.name_claim":         "claim with the person's name",
	"oidc.groups_claim":       "claim with the person's groups; dots separate the names of nested claims",
	"oidc.ca_bundle":          "CA certificates (PEM) of the provider, on top of the system's",
	"oidc.roles.admin":        "groups whose members are administrators",
	"oidc.roles.operator":     "groups whose members are operators",
	"oidc.roles.viewer":       "groups whose members are viewers",
	"oidc.group_scopes":       "clusters and infra-envs to which the members of groups are limited, as YAML",

	"ldap.url": "URLs of the servers of the LDAP directory with which people log in, ldaps:// or ldap:// (with " +
		"StartTLS); default: none",
	"ldap.plain":              "permit ldap:// without TLS; passwords then pass the network in clear",
	"ldap.ca_bundle":          "CA certificates (PEM) of the directory, on top of the system's",
	"ldap.bind_dn":            "account that searches the directory; default: none, for anonymous searches",
	"ldap.bind_password_file": "file of mode 0600 with the password of this account",
	"ldap.base_dn":            "subtree of the directory with the people",
	"ldap.user_filter":        "filter that finds a person; {name} stands for the name that was typed",
	"ldap.name_attribute":     "attribute with the person's name",
	"ldap.group_attribute":    "attribute with the person's groups",
	"ldap.group_base_dn":      "subtree with the groups, for ldap.group_filter; default: ldap.base_dn",
	"ldap.group_filter": "filter that finds the person's groups, with {dn} or {name}; default: none, only the groups " +
		"in ldap.group_attribute",
	"ldap.roles.admin":    "groups whose members are administrators, by their DN or CN",
	"ldap.roles.operator": "groups whose members are operators, by their DN or CN",
	"ldap.roles.viewer":   "groups whose members are viewers, by their DN or CN",
	"ldap.group_scopes":   "clusters and infra-envs to which the members of groups are limited, as YAML",

	"os_images": "live ISOs, the base of discovery ISOs, as YAML",
	"os_image_proxy": "URL of the proxy for downloads of live ISOs; " +
		"default: the environment's HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
	"release_images": "OpenShift releases available for clusters, as YAML",
	"releases.signing_keys": "files with public keys (OpenPGP or PEM): releases that one of them signed " +
		"are allowed, in addition to release_images",
	"installer.user":    "user as which openshift-install runs, if the appliance runs as root; default: nobody",
	"installer.network": "let openshift-install use the network",
	"ntp_sources":       "time servers for all hosts, names or addresses",

	"mirror.registries_conf": "registries.conf (version 2) with the site's mirrors",
	"mirror.idms_files": "files with ImageDigestMirrorSet, ImageTagMirrorSet or ImageContentSourcePolicy objects, " +
		"as oc-mirror writes them",
	"mirror.ca_bundle":   "CA certificates (PEM) of the mirror registry",
	"mirror.pull_secret": "pull secret (JSON) of the site, for releases, and for clusters without their own",

	"registry.listen": "address and port of the appliance's own registry, such as 0.0.0.0:5000; default: none",
	"registry.media": "files and folders with images that the registry serves as they lie there: archives of " +
		"oc-mirror, OCI layouts, folders of the courier, or a stick with them",
	"registry.tls": "serve the registry over TLS with a certificate of the appliance's authority; false is permitted " +
		"on the loopback only",
	"registry.anonymous_pull": "let everybody in the network pull; false: nodes need the pull secret that the " +
		"appliance completes; pushes always need an account or a token",
	"registry.bytes": "space for images that are pushed to the registry, and for copies of media",
	"registry.name": "name or address under which nodes reach the registry; default: that of listen, or of the " +
		"appliance's first URL",

	"egress.allow": "networks (CIDR), addresses and host names to which people may make the appliance send requests, " +
		"on top of the default",
	"egress.deny": "networks (CIDR), addresses and host names to which people may not make the appliance send requests",

	"images.agent":      "image of the discovery agent; default: from the release payload",
	"images.installer":  "image of the installer that runs on hosts; default: from the release payload",
	"images.controller": "image of the controller that runs in the new cluster; default: from the release payload",

	"validations.requirements": "JSON file with minimum requirements of hosts by version and role, in the format of " +
		"the Assisted Installer's HW_VALIDATOR_REQUIREMENTS; other requirements keep their defaults",
	"validations.operator_requirements": "YAML or JSON file that maps the names of operators to their " +
		"requirements of hosts; other requirements keep their defaults",
	"validations.disabled_hosts": "IDs of disabled host validations",

	"limits.request_body_bytes": "maximum size of a request body",
	"limits.log_upload_bytes":   "maximum size of a log archive from a host or a controller",
	"limits.manifest_bytes":     "maximum size of a custom manifest of a cluster",
	"limits.os_image_bytes":     "maximum size of an uploaded live ISO",
	"limits.event_bytes":        "space for events; the oldest events are removed first",
	"limits.event_object_bytes": "share of the events of one cluster, infra-env or host in this space",
	"limits.journal_bytes": "space for the journals of clusters, infra-envs and hosts; the oldest " +
		"entries are removed first",
	"limits.journal_object_bytes": "share of one cluster, infra-env or host in this space",
	"limits.installer_cache_bytes": "space for extracted openshift-install programs; the least recently used " +
		"ones are removed first",

	"timeouts.installer":     "time for one run of openshift-install",
	"timeouts.image_stalled": "time without progress after which the download of an image is aborted",
	"timeouts.image_hold": "time for which a client that reads an image in ranges continues to get the version " +
		"that it started with",
	"timeouts.shutdown": "time for running requests when the appliance stops",
	"timeouts.expired_stages": "effect of a stage that takes too long: fail ends the installation, warn only " +
		"reports it",

	"ams.enabled": "report the clusters to OpenShift Cluster Manager when there is a connection and " +
		"credentials",
	"ams.connect":            "automatic: whenever there is a connection; by-hand: only while a user connects the site",
	"ams.url":                "URL of OpenShift Cluster Manager's API",
	"ams.token_url":          "URL at which credentials are exchanged for tokens",
	"ams.offline_token_file": "file of mode 0600 with an offline token",
	"ams.client_id":          "name of a service account",
	"ams.client_secret_file": "file of mode 0600 with the service account's secret",
	"ams.account":            "user name of the owner of subscriptions; default: the user of the credentials",
	"ams.proxy": "URL of the proxy to OpenShift Cluster Manager; " +
		"default: the environment's HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
	"ams.ca_bundle": "CA certificates (PEM) for the connection to OpenShift Cluster Manager, on top of the " +
		"system's",
	"ams.final_status":  "status of an installed cluster in OpenShift Cluster Manager",
	"ams.call_interval": "average time between two calls",

	"capabilities.enforce": "allow only the features that the organization's labels at this appliance name: " +
		"clusters of several architectures, ignored validations, soft time-outs",

	"kubernetes.enabled": "serve the Kubernetes API, with the resources of Hive, the Assisted Installer, " +
		"metal3 and ACM",
	"kubernetes.listen": "address and port of a separate server for the Kubernetes API; default: the " +
		"address in listen",
	"kubernetes.image_settles": "time for which an infra-env's image must be unchanged before BareMetalHosts boot it",

	"hosted.enabled": "serve hosted clusters: the resource provider, Clusters Service and Maestro",
	"hosted.broker_listen": "address and port of the broker for management clusters (MQTT with TLS and client " +
		"certificates); default: port 8883 at the address in listen",
	"hosted.debug_listen": "serve the resource provider, Clusters Service and Maestro without authentication in " +
		"plain HTTP on the ports 8443, 8001 and 8002 of this machine's loopback",

	"seal.with": "with what the data key is sealed: file, passphrase, credential (of systemd) or tpm; " +
		"default: file, and for an existing data directory as before",
	"seal.key_file":        "key file that seals the data key; default: seal.key in the data directory",
	"seal.passphrase_file": "file with the passphrase that seals the data key; default: ask on the terminal",
	"seal.tpm_device":      "device of the TPM 2.0 that seals the data key",

	"joining.follow": "connect to installed clusters that hosts join, if there is a kubeconfig: approve the hosts' " +
		"certificate requests, label their nodes, wait until they are ready",
	"joining.addresses": "addresses of clusters' APIs whose names the appliance cannot resolve, NAME=ADDRESS or " +
		"NAME=ADDRESS:PORT; *.DOMAIN means all names below DOMAIN",
	"joining.give_up": "time after a host's restart to wait for it in an unreachable cluster; unlimited for clusters " +
		"of the Kubernetes API",
	"joining.interval": "time between two checks of a cluster while hosts join it",

	"site.names": "DNS names of the appliance itself, which its DNS service answers with its addresses",
	"site.dns.interfaces": "network interfaces on which the appliance serves DNS for the names of its clusters; " +
		"default: none",
	"site.dns.forward":    "DNS servers for all other names; default: none, other names are refused",
	"site.ntp.interfaces": "network interfaces on which the appliance serves the time by NTP; default: none",
	"site.ntp.local_clock": "declare this machine's clock as the time of the site while it is not synchronised " +
		"(stratum 10)",

	"site.dhcp.interfaces": "network interfaces on which the appliance serves DHCP, each with its mode: eth1=proxy " +
		"(beside another DHCP server, for network boot only), eth1=reservations, or eth1=FIRST-LAST (a range of " +
		"addresses); default: none",
	"site.dhcp.lease":  "time of a lease, or infinite",
	"site.dhcp.router": "default gateway of the machines; default: that of this machine, or this machine",
	"site.dhcp.infra_env": "infra-env, by name or ID, that unknown machines boot from the network; " +
		"default: the only one",
	"site.dhcp.known_only": "serve boot files only to machines that the site knows: by a reservation, a BMC, a " +
		"static network or an earlier registration",
	"site.dhcp.loaders": "directory with boot loaders for BIOS: undionly.kpxe of iPXE",
	"site.dhcp.relayed": "networks whose DHCP relay agents send requests to the appliance, as YAML",
	"site.tftp.interfaces": "network interfaces on which the appliance serves boot loaders by TFTP for another DHCP " +
		"server; the interfaces in site.dhcp are included; default: none",

	"backup.directory": "existing directory for scheduled backups, possibly on a medium that is not always there; " +
		"without it, there are none",
	"scrub.interval":  "time between two readings of all stored data, which find damage",
	"backup.interval": "time between two scheduled backups",
	"backup.keep":     "number of scheduled backups that stay; 0 for all",
	"backup.recipient": "public key of age (age1...), for which the scheduled backups are encrypted; only then do " +
		"they contain the data key",

	"replica.to": "existing directory for the replica, a continuous copy of the data, possibly on a medium that is " +
		"not always there; or the https:// URL of a second appliance with replica.receive; default: none",
	"replica.token_file": "file with the credential that this and the second appliance share: at least 32 random " +
		"characters",
	"replica.ca_file": "CA certificates (PEM) of a second appliance, such as its ca.crt; default: those of the " +
		"system",
	"replica.receive": "existing directory in which this appliance receives the replica of another one; default: " +
		"none",
	"replica.receive_token_file": "file with the credential of the appliance whose replica is received",
	"replica.keep":               "time back to which the replica can be restored",
	"replica.bytes":              "space for the replica; the oldest states are removed first",
	"replica.snapshot_interval": "time between two snapshots in the replica; a restore applies the changes after the " +
		"snapshot before it",
	"replica.recipient": "public key of age (age1...) that can open the replica; it then contains the data key",

	"fleet.etcd": "URLs of the etcd that has the log of a fleet, several machines with one state; default: none, the " +
		"appliance is a single machine",
	"fleet.prefix":    "beginning of all keys of the fleet in etcd; default: /landfall/",
	"fleet.ca_file":   "CA certificates (PEM) of etcd; default: those of the system",
	"fleet.cert_file": "client certificate (PEM) for etcd; default: none",
	"fleet.key_file":  "private key (PEM) of fleet.cert_file",
	"fleet.name":      "name of this member in the fleet; default: the name of the machine",
	"fleet.url": "https:// URL by which other members reach this one; default: the first URL for hosts that is " +
		"an address of this machine",
	"fleet.takeover": "time after which another member takes over from a leader that does not answer, in whole " +
		"seconds",
	"fleet.copies":     "number of members that keep each file above 64 KiB, with the leader; default: 0, all members",
	"fleet.virtual_ip": "address that the leader has on fleet.interface and announces by ARP or NDP; default: none",
	"fleet.interface": "network interface of fleet.virtual_ip; default: the one whose network contains the " +
		"address",

	"audit.bytes": "space for the audit trail, at least 1MiB; the oldest records are removed first",
	"audit.syslog": "syslog server that receives each audit record: unix:///dev/log, udp://HOST:PORT, " +
		"tcp://HOST:PORT or tls://HOST:PORT; default: none",
	"audit.syslog_ca_file": "CA certificates (PEM) of the syslog server with TLS, on top of the system's",

	"log.format": "text for people, json for programs; auto: text on a terminal, json elsewhere",
	"log.level":  "minimum level of log lines",

	"tracing.endpoint": "URL of a collector that takes OpenTelemetry traces (OTLP over HTTP); default: none",
	"tracing.ca_file":  "CA certificates (PEM) of the collector of traces, on top of the system's",
	"tracing.percent":  "percentage of the requests and tasks that are recorded as traces",
	"profiling.socket": "Unix socket for profiles of the program, which only its user may open; default: none",
}

// helpOf returns the explanation of a key.
func helpOf(key string) string {
	if limit, ok := strings.CutPrefix(key, "timeouts."); ok && lifecycle.TimeoutHelp[limit] != "" {
		return lifecycle.TimeoutHelp[limit]
	}
	return help[key]
}
