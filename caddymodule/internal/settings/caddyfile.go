package settings

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/codehub/gateway/coordinator"
)

// UnmarshalCaddyfile reads the global option. Values may hold placeholders, which are replaced when
// Caddy starts; literals are checked here, where the line is known. A configuration has either
// docker or backend, never both backends. Syntax:
//
//	codehub {
//		database                <dsn>
//		redis                   <url>
//		domain                  <name>
//		main_host               <host>
//		workspace_url           host|path
//		public_url              <url>
//		workspace_ports         true|false
//		share_ports             true|false
//		installation            <name>
//		admin_password          <password>
//		session_ttl             <duration>
//		audit_retention         <duration>
//		activity                presence|traffic
//		activity_flush_interval <duration>
//		sse_heartbeat_interval  <duration>
//		route_lease             <duration>
//		home_warn               <size>
//		memory_pressure         <percentage>|off
//		brand {
//			name  <text>
//			logo  <file>
//			color <rrggbb>
//		}
//		sign_in {
//			password        true|false
//			exempt_networks <address|network...>
//		}
//		oidc {
//			issuer         <url>
//			client_id      <id>
//			client_secret  <secret>
//			scopes         <list>
//			username_claim <name>
//			groups_claim   <name>
//			admin_groups   <list>
//			allowed_groups <list>
//			create_users   true|false
//		}
//		identity {
//			user         <placeholder>
//			create_users true|false
//			sign_out     <url>
//		}
//		s3 {
//			endpoint     <url>
//			region       <name>
//			bucket       <name>
//			prefix       <text>
//			path_style   true|false
//			access_key   <secret>
//			secret_key   <secret>
//			job_endpoint <url>
//			verify       full|checksum
//			ca           <file>
//			sse          s3|kms [<key id>]
//		}
//		encryption {
//			recipients <file>
//			identities <file>
//		}
//		docker {
//			host            <address>
//			network         <name>
//			subnet          <prefix>
//			job_network     <name>
//			publish         none|loopback|<from>-<to>
//			warm            <number>
//			workspace_image <reference>
//			workspace_port  <port>
//			job_image       <reference>
//			memory          <size>
//			cpus            <number>
//			stop_grace      <short duration>
//			pids            <number>
//			disk            <size>
//			home            <size>
//		}
//		backend docker {
//			...
//		}
//		backend kubernetes {
//			kubeconfig         <file>
//			context            <name>
//			namespace          <name>
//			workspace_image    <reference>
//			workspace_port     <port>
//			job_image          <reference>
//			image_pull_secrets <names...>
//			memory             <size>
//			cpus               <number>
//			stop_grace         <short duration>
//			disk               <size>
//			memory_request     <size>
//			cpus_request       <number>
//			user               <number>
//			group              <number>
//			home               <size>
//			storage_class      <name>
//			access_mode        ReadWriteOnce|ReadWriteOncePod
//			node_selector      <name=value...>
//			tolerations        <key=value:effect|key:effect|key...>
//			priority_class     <name>
//			runtime_class      <name>
//			pod_template       <file>
//			busy_command       <command>
//			job_cpus           <number>
//			gateway_pods       <name=value...>
//			dns_namespace      <name>
//		}
//		disk_pressure {
//			archive_at <percentage>|off
//			stop_at    <percentage>|off
//		}
//		egress {
//			enforce auto|require|open
//			allow   <address|network|address:port...>
//			deny    <address|network...>
//			gateway <address|network...>
//		}
//		images {
//			<name> {
//				reference   <reference>
//				title       <text>
//				description <text>
//				icon        <name>
//				port        <port>
//				keep_prefix
//				git
//				command     <words...>
//			}
//			...
//		}
//		coordinator {
//			node_id           <name>
//			lock_id           <number>
//			shards            <number>
//			retry_interval    <duration>
//			idle_interval     <duration>
//			active_interval   <duration>
//			ttl_interval      <duration>
//			gc_interval       <duration>
//			gc_delay          <duration>
//			undelete_for      <duration>
//			keep_archives     <number>
//			scrub             <size per day>
//			max_concurrent    <number>
//			max_jobs          <number>
//			max_retry         <number>
//			max_loss_share    <fraction>
//		}
//		ttl {
//			doze <duration>
//			standby <duration>
//			archive <duration>
//			keep_awake_max <duration>
//		}
//		work {
//			cap                 <duration>
//			keep_awake_commands <name>,<name>…|none
//		}
//		limits {
//			max_running_per_user    <number>
//			max_running_global      <number>
//			max_dozing_per_user     <number>
//			max_dozing_global       <number>
//			max_held                <number>
//			max_workspaces_per_user <number>
//		}
//		redis_channels {
//			sse  <prefix>
//			wake <prefix>
//		}
//		timeouts {
//			starting <duration>
//		}
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	p := NewOptionParser(d, "codehub", a.Table(new(Resolved)))
	p.removed = removed
	p.custom("images", a.readImages)
	p.custom("backend", a.readBackend, coordinator.BackendKubernetes)
	if err := p.Read(); err != nil {
		return err
	}
	for _, w := range p.warnings {
		caddy.Log().Named("codehub").Warn(w)
	}
	if err := a.checkBackend(); err != nil {
		return d.Errf("codehub: %w", err)
	}
	return nil
}

// readBackend reads the option `backend`, which is the current token: the name of the backend and
// the block of its settings. Docker's block may also stand alone, as `docker`.
func (a *App) readBackend(p *OptionParser) {
	args := p.d.RemainingArgs()
	switch {
	case len(args) != 1 || args[0] != coordinator.BackendDocker && args[0] != coordinator.BackendKubernetes:
		p.Errorf("%s backend takes one name, %s or %s, and a block",
			p.what, coordinator.BackendDocker, coordinator.BackendKubernetes)
		p.skip()
	case a.Backend != "":
		p.Errorf("%s backend is given twice: an installation has one", p.what)
		p.skip()
	default:
		a.Backend = args[0]
		p.block(a.Backend)
	}
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*App)(nil)
