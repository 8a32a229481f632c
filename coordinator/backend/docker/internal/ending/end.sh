# Ends the programs in other sessions than those of the first process and of the application.
# They get SIGTERM, and time until $1 hundredths of a second have passed. Interactive shells ignore SIGTERM. They then get SIGHUP,
# as from a terminal that is closed, and save their history: until $2 hundredths have passed.
PATH=/usr/local/bin:/usr/bin:/bin
now() { read -r up rest </proc/uptime; echo "${up%.*}${up#*.}"; }
session() { read -r stat <"/proc/$1/stat" && set -- ${stat##*) } && echo "$4"; }
# Prints the children of process $1, the oldest first.
children() {
	for of in /proc/[0-9]*; do
		{ read -r stat <"$of/stat"; } 2>/dev/null || continue
		set -- "$1" ${stat##*) }
		[ "$3" != "$1" ] || echo "${of#/proc/}"
	done | { sort -n 2>/dev/null || cat; }
}
# Prints the sessions of the application, from process $1 on. An init such as dumb-init gives what it starts a session of its own, and
# passes the stop signal on. The first process has adopted others since, so that only its first child counts.
application() {
	session "$1"
	read -r stat <"/proc/$1/stat" && name=${stat#*(}
	case ${name%)*} in docker-init | tini* | dumb-init | catatonit | s6-*) ;; *) return ;; esac
	for child in $(children "$1"); do
		application "$child"
		[ "$1" != 1 ] || break
	done
}
# Sets heeding to the processes that heed SIGTERM, and deaf to those that ignore it.
look() {
	heeding='' deaf=''
	for of in /proc/[0-9]*; do
		{ read -r stat <"$of/stat"; } 2>/dev/null || continue
		set -- ${stat##*) }
		case $1 in Z | X) continue ;; esac
		case "$main $own 0 " in *" $4 "*) continue ;; esac
		{ while read -r key ignored && [ "$key" != SigIgn: ]; do :; done <"$of/status"; } 2>/dev/null || continue
		case $ignored in
		*[4-7c-f]???) deaf="$deaf ${of#/proc/}" ;;
		*) heeding="$heeding ${of#/proc/}" ;;
		esac
	done
}
# Sends signal $1 once to each of the other arguments, which goes on if it was stopped.
told=''
tell() {
	signal=$1
	shift
	for process; do
		case "$told " in *" $signal$process "*) continue ;; esac
		told="$told $signal$process"
		kill -s "$signal" "$process" && kill -s CONT "$process"
	done 2>/dev/null
}
pause() { sleep 0.05 2>/dev/null || sleep 1; }
main=" $(echo $(application 1 2>/dev/null))" own=$(session $$) begin=$(now)
while look && [ -n "$heeding" ] && [ $(($(now) - begin)) -lt "$1" ]; do
	tell TERM $heeding
	pause
done
while look && [ -n "$heeding$deaf" ] && [ $(($(now) - begin)) -lt "$2" ]; do
	tell TERM $heeding
	tell HUP $deaf
	pause
done
