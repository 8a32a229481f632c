// Texts in English and Korean, and the language switch. The browser's language
// decides until the user has chosen.

const texts = {
  en: {
    other: "한국어",
    title: "Workspaces · CodeHub",
    sign_in_title: "Sign in · CodeHub",
    sign_in: "Sign in",
    sign_in_provider: "Sign in with single sign-on",
    sign_out: "Sign out",
    username: "User name",
    password: "Password",
    skip: "Skip to the workspaces",
    workspaces: "Workspaces",
    new_workspace: "New workspace",
    name: "Name",
    description: "Description (optional)",
    create: "Create",
    running_of: (n, limit) => `${n} of ${limit} running`,
    image: "Image",
    image_default: (name) => `${name} (default)`,
    image_other: "Any other image…",
    image_any: "The image's reference, with its tag",
    image_gone: "This image is not offered any more.",
    image_later: "Another image is used from the next start on.",
    image_again: "The workspace tries again to start with the image that you choose.",
    edit: "Edit",
    edit_title: (name) => `Edit “${name}”`,
    save: "Save",
    limit_workspaces: (limit) => `You can have at most ${limit} workspaces. Delete one first.`,
    image_unknown: (names) => `This image is not offered. There are: ${names}.`,
    empty: "No workspaces yet. Enter a name and create one.",
    cancel: "Cancel",
    open: "Open",
    open_label: (name) => `Open ${name} in a new tab`,
    start: "Start",
    sleep: "Sleep",
    archive: "Archive",
    recover: "Recover",
    delete: "Delete",
    action_label: (action, name) => `${action}: ${name}`,
    delete_title: (name) => `Delete “${name}”?`,
    delete_text: "The workspace will be stopped. For a while you can undo this at the end of this page; then its files are deleted for good.",
    deleted_title: "Deleted workspaces",
    deleted_text: "Their files are kept for a while, and until then the deletion can be undone.",
    undelete: "Undo",
    undelete_waits: "Will be undone as soon as the present step has ended",
    until: (time) => `Can be undone until ${time} at least`,
    until_soon: "Its files may be deleted at any moment",
    details: "Details",
    details_label: (name) => `Details of ${name}`,
    progress_label: (name) => `Progress of ${name}`,
    why: "Why", waits: "It waits for", files: "Files", next: "What comes next", asked: "Asked for", error_now: "Error", error_before: "Earlier error", remedy: "What to do",
    problems_title: "Needs an administrator",
    recovery_title: (name) => `Recover “${name}”`,
    recovery_text: (reason) => `The workspace needs a choice (${reason}): only you can tell which files are the right ones.`,
    recovery_legend: "This exists. With which files should it continue?",
    choice_volume: (time) => time ? `Keep the files on the volume, made ${time}` : "Keep the files on the volume",
    choice_archive: (time, size, current) => `Take the archive of ${time}, ${size}${current ? ", the one on record" : ""}`,
    choice_empty: "Start with an empty home",
    replaces_volume: "The volume that exists is deleted for this, with all files on it.",
    replace_title: "Delete the files on the volume?",
    replace_text: (name) => `The present volume of “${name}” is deleted. Nobody can undo this.`,
    replace: "Delete and recover",
    connecting: "Connecting…",
    live: "Live",
    lost: "Connection lost, reconnecting…",
    phase: {
      PENDING: "New", ARCHIVED: "Archived", STANDBY: "Asleep", RUNNING: "Running",
      ERROR: "Error", DELETING: "Deleting", DELETED: "Deleted",
    },
    operation: {
      CREATE_EMPTY_ARCHIVE: "Creating an empty archive", PROVISIONING: "Creating the volume", RESTORING: "Restoring the files",
      STARTING: "Starting", STOPPING: "Stopping", ARCHIVING: "Archiving the files", DELETING: "Deleting",
    },
    for_seconds: (n) => n < 60 ? `${n} s` : `${Math.floor(n / 60)} min ${n % 60} s`,
    desired: { RUNNING: "Will start in a moment", STANDBY: "Will go to sleep in a moment", ARCHIVED: "Will be archived in a moment" },
    keep_awake: "Keep awake…",
    keep_awake_hours: (n) => n === 1 ? "For 1 hour" : `For ${n} hours`,
    keep_awake_end: "No longer",
    kept_awake: (time) => `Kept awake until ${time}`,
    sleeps_at: (time) => `Goes to sleep at ${time} unless it is used`,
    traffic: "Its pages cannot report people, so all their traffic counts as use",
    busy: {
      KeepAwakeCommand: (what) => `Stays awake: ${what} is open in a terminal`,
      TerminalJob: (what) => `Stays awake: ${what} is running in a terminal`,
      BackgroundJob: (what) => `Stays awake: ${what} is computing in the background`,
      NotebookKernel: (what) => `Stays awake: a notebook is computing (${what})`,
      BusyFile: (what) => what ? `Stays awake: ${what}` : "Stays awake: a program in it says that it is busy",
      ImageCommand: () => "Stays awake: its application says that it is busy",
      NoAnswer: () => "Stays awake: it cannot be told whether it is busy",
      other: (what) => `Stays awake: ${what}`,
    },
    archive_state: "Archive", archives_title: "Archives",
    archive_of: (time, size) => `${time}, ${size}`,
    archive_current: "the present one",
    archive_kept: "kept until the next archive is made",
    archive_damaged: "damaged",
    archive_verified: (time) => `checked ${time}`,
    archive_restore: "Restore this one",
    archive_restore_label: (time, name) => `Restore the archive of ${time}: ${name}`,
    archive_restore_title: (name, time) => `Take “${name}” back to ${time}?`,
    archive_restore_text: "The workspace is stopped and its present files are archived first, so you can come back to them until the next archive is made. Then it continues with the files of that time.",
    archive_restoring: "Going back to an older archive; the present files are archived first",
    damaged: "The archive with its files is damaged or missing. Do not delete the workspace: restore an older archive in its details, or tell an administrator.",
    damaged_beside_volume: "Its last archive is damaged or missing. Its files are not concerned, and the next archive takes its place.",
    used: (ago) => `Last used ${ago}`,
    never_used: "Not used yet",
    home: (size, at_least) => `Files: ${at_least ? "at least " : ""}${size}`,
    home_large: (size, at_least) => `Files: ${at_least ? "at least " : ""}${size}, more than this server recommends. Delete what you do not need.`,
    failed: (reason) => `Error: ${reason}`,
    failed_title: "Workspaces of other users in ERROR",
    failed_more: "There are more. Many at once: caddy codehub workspace recover --reason REASON --all",
    owner: (name) => `of ${name}`,
    problem: {
      "bad-credentials": "Wrong user name or password.",
      "not-signed-in": "Your session has ended. Sign in again.",
      "operation-in-progress": "Another operation is in progress for this workspace. Wait until it has finished, then try again.",
      "not-awake": "The workspace is not awake. Open it first.",
      "archive-not-restorable": "This archive cannot be restored: it is damaged or gone, it is the present one already, or the workspace is in an error.",
      "not-found": "Not found. The workspace may have been deleted.",
      "forbidden": "Only administrators can do this.",
      "unavailable": "The service is not available at the moment. Try again shortly.",
      "files-unknown": "It is not known which files exist, because the container engine, the cluster or the object store does not answer as the one on record, or archives are being collected. Nothing was changed; try again in a few minutes.",
      "deleted": "The workspace is deleted. Undelete it first.",
      "collected": "It is too late: the files are being deleted.",
    },
    limit_user: (limit, names) => `At most ${limit} of your workspaces can run at a time. Put one to sleep first${names ? `: ${names}` : ""}.`,
    limit_global: (limit) => `This server runs at most ${limit} workspaces at a time, and that many are running. Try again later.`,
    throttled: (n) => `Too many attempts to sign in. Wait ${t.for_seconds(n)}, then try again.`,
    sessions_title: "Where you are signed in",
    sessions_text: "Sign out whatever you do not recognise. What is open there closes at once.",
    session_current: "this browser",
    session_unknown: "Unknown program",
    session_used: (time, address) => `Last used ${time}${address ? ` from ${address}` : ""}`,
    session_since: (time) => `signed in ${time}`,
    sign_out_others: "Sign out everywhere else",
    unreachable: "The server does not answer. Check your connection and try again.",
    unexpected: (status) => `The request failed (${status}).`,
    name_needed: "Enter a name for the workspace.",
  },
  ko: {
    other: "English",
    title: "워크스페이스 · CodeHub",
    sign_in_title: "로그인 · CodeHub",
    sign_in: "로그인",
    sign_in_provider: "통합 로그인(SSO)으로 로그인",
    sign_out: "로그아웃",
    username: "사용자 이름",
    password: "비밀번호",
    skip: "워크스페이스 목록으로 바로 가기",
    workspaces: "워크스페이스",
    new_workspace: "새 워크스페이스",
    name: "이름",
    description: "설명 (선택)",
    create: "만들기",
    running_of: (n, limit) => `${limit}개 중 ${n}개 실행 중`,
    image: "이미지",
    image_default: (name) => `${name} (기본)`,
    image_other: "다른 이미지 직접 입력…",
    image_any: "태그를 포함한 이미지 주소",
    image_gone: "더 이상 제공되지 않는 이미지입니다.",
    image_later: "바꾼 이미지는 다음에 시작할 때부터 쓰입니다.",
    image_again: "저장하면 고른 이미지로 다시 시작해 봅니다.",
    edit: "편집",
    edit_title: (name) => `“${name}” 편집`,
    save: "저장",
    limit_workspaces: (limit) => `워크스페이스는 최대 ${limit}개까지 만들 수 있습니다. 먼저 하나를 삭제하세요.`,
    image_unknown: (names) => `제공되지 않는 이미지입니다. 고를 수 있는 이미지: ${names}.`,
    empty: "아직 워크스페이스가 없습니다. 이름을 입력하고 만들어 보세요.",
    cancel: "취소",
    open: "열기",
    open_label: (name) => `새 탭에서 ${name} 열기`,
    start: "시작",
    sleep: "재우기",
    archive: "보관",
    recover: "복구",
    delete: "삭제",
    action_label: (action, name) => `${action}: ${name}`,
    delete_title: (name) => `“${name}” 워크스페이스를 삭제할까요?`,
    delete_text: "워크스페이스를 중지합니다. 얼마 동안은 이 페이지 아래쪽에서 되돌릴 수 있고, 그 뒤에는 파일이 완전히 삭제됩니다.",
    deleted_title: "삭제한 워크스페이스",
    deleted_text: "파일은 얼마 동안 남아 있으며, 그동안은 삭제를 되돌릴 수 있습니다.",
    undelete: "되돌리기",
    undelete_waits: "진행 중인 단계가 끝나는 대로 되돌립니다",
    until: (time) => `적어도 ${time}까지 되돌릴 수 있음`,
    until_soon: "파일이 곧 삭제될 수 있음",
    details: "자세히",
    details_label: (name) => `${name} 자세히`,
    progress_label: (name) => `${name} 진행 상황`,
    why: "이유", waits: "기다리는 것", files: "파일", next: "다음에 일어날 일", asked: "요청", error_now: "오류", error_before: "지난 오류", remedy: "조치",
    problems_title: "관리자의 조치가 필요합니다",
    recovery_title: (name) => `“${name}” 복구`,
    recovery_text: (reason) => `선택이 필요한 워크스페이스입니다(${reason}). 어느 파일이 맞는지는 직접 골라야 합니다.`,
    recovery_legend: "남아 있는 것은 다음과 같습니다. 어느 파일로 계속할까요?",
    choice_volume: (time) => time ? `볼륨에 있는 파일을 그대로 사용(볼륨 생성: ${time})` : "볼륨에 있는 파일을 그대로 사용",
    choice_archive: (time, size, current) => `${time} 보관본 사용, ${size}${current ? ", 기록된 보관본" : ""}`,
    choice_empty: "빈 홈으로 시작",
    replaces_volume: "이렇게 하면 지금 있는 볼륨과 그 안의 모든 파일이 삭제됩니다.",
    replace_title: "볼륨의 파일을 삭제할까요?",
    replace_text: (name) => `“${name}”의 지금 볼륨을 삭제합니다. 아무도 되돌릴 수 없습니다.`,
    replace: "삭제하고 복구",
    connecting: "연결 중…",
    live: "실시간 연결됨",
    lost: "연결이 끊겨 다시 연결하는 중…",
    phase: {
      PENDING: "생성 대기", ARCHIVED: "보관됨", STANDBY: "잠자는 중", RUNNING: "실행 중",
      ERROR: "오류", DELETING: "삭제 중", DELETED: "삭제됨",
    },
    operation: {
      CREATE_EMPTY_ARCHIVE: "빈 보관본을 만드는 중", PROVISIONING: "볼륨을 만드는 중", RESTORING: "파일을 복원하는 중",
      STARTING: "시작하는 중", STOPPING: "중지하는 중", ARCHIVING: "파일을 보관하는 중", DELETING: "삭제하는 중",
    },
    for_seconds: (n) => n < 60 ? `${n}초` : `${Math.floor(n / 60)}분 ${n % 60}초`,
    desired: { RUNNING: "곧 시작됩니다", STANDBY: "곧 잠듭니다", ARCHIVED: "곧 보관됩니다" },
    keep_awake: "깨워 두기…",
    keep_awake_hours: (n) => `${n}시간 동안`,
    keep_awake_end: "그만 깨워 두기",
    kept_awake: (time) => `${time}까지 깨워 둡니다`,
    sleeps_at: (time) => `사용하지 않으면 ${time}에 잠듭니다`,
    traffic: "이 워크스페이스의 페이지는 사람이 쓰는지 알려 줄 수 없어 모든 통신을 사용으로 봅니다",
    busy: {
      KeepAwakeCommand: (what) => `깨어 있음: 터미널에 ${what} 열려 있음`,
      TerminalJob: (what) => `깨어 있음: 터미널에서 ${what} 실행 중`,
      BackgroundJob: (what) => `깨어 있음: 백그라운드에서 ${what} 계산 중`,
      NotebookKernel: (what) => `깨어 있음: 노트북 계산 중(${what})`,
      BusyFile: (what) => what ? `깨어 있음: ${what}` : "깨어 있음: 안의 프로그램이 작업 중이라고 알림",
      ImageCommand: () => "깨어 있음: 애플리케이션이 작업 중이라고 알림",
      NoAnswer: () => "깨어 있음: 작업 중인지 알 수 없음",
      other: (what) => `깨어 있음: ${what}`,
    },
    archive_state: "보관본", archives_title: "보관본",
    archive_of: (time, size) => `${time}, ${size}`,
    archive_current: "현재 보관본",
    archive_kept: "다음에 보관할 때까지 남겨 둠",
    archive_damaged: "손상됨",
    archive_verified: (time) => `${time} 확인함`,
    archive_restore: "이것으로 되돌리기",
    archive_restore_label: (time, name) => `${name}: ${time} 보관본으로 되돌리기`,
    archive_restore_title: (name, time) => `“${name}”을(를) ${time} 상태로 되돌릴까요?`,
    archive_restore_text: "워크스페이스를 멈추고 지금의 파일을 먼저 보관하므로, 다음에 보관할 때까지 다시 돌아올 수 있습니다. 그런 다음 그때의 파일로 계속합니다.",
    archive_restoring: "이전 보관본으로 되돌리는 중입니다. 지금의 파일을 먼저 보관합니다",
    damaged: "파일이 든 보관본이 손상되었거나 없습니다. 워크스페이스를 삭제하지 말고, 자세히에서 이전 보관본으로 되돌리거나 관리자에게 알리세요.",
    damaged_beside_volume: "마지막 보관본이 손상되었거나 없습니다. 파일은 무사하며 다음 보관본이 이것을 대신합니다.",
    used: (ago) => `마지막 사용: ${ago}`,
    never_used: "아직 사용하지 않음",
    home: (size, at_least) => `파일: ${at_least ? "적어도 " : ""}${size}`,
    home_large: (size, at_least) => `파일: ${at_least ? "적어도 " : ""}${size}, 이 서버의 권장 크기를 넘었습니다. 필요 없는 파일을 지우세요.`,
    failed: (reason) => `오류: ${reason}`,
    failed_title: "오류 상태인 다른 사용자의 워크스페이스",
    failed_more: "더 있습니다. 한꺼번에 복구하려면: caddy codehub workspace recover --reason REASON --all",
    owner: (name) => `소유자: ${name}`,
    problem: {
      "bad-credentials": "사용자 이름 또는 비밀번호가 올바르지 않습니다.",
      "not-signed-in": "세션이 만료되었습니다. 다시 로그인하세요.",
      "operation-in-progress": "이 워크스페이스에서 다른 작업이 진행 중입니다. 작업이 끝난 뒤 다시 시도하세요.",
      "not-awake": "깨어 있지 않은 워크스페이스입니다. 먼저 여세요.",
      "archive-not-restorable": "되돌릴 수 없는 보관본입니다. 손상되었거나 없어졌거나 이미 현재 보관본이거나, 워크스페이스가 오류 상태입니다.",
      "not-found": "워크스페이스를 찾을 수 없습니다. 삭제되었을 수 있습니다.",
      "forbidden": "관리자만 할 수 있는 작업입니다.",
      "unavailable": "지금은 서비스를 이용할 수 없습니다. 잠시 후 다시 시도하세요.",
      "files-unknown": "컨테이너 엔진, 클러스터 또는 오브젝트 스토리지가 기록된 것으로서 응답하지 않거나 보관본을 정리하고 있어, 어떤 파일이 남아 있는지 알 수 없습니다. 아무것도 바꾸지 않았습니다. 몇 분 뒤 다시 시도하세요.",
      "deleted": "삭제된 워크스페이스입니다. 먼저 삭제를 취소하세요.",
      "collected": "너무 늦었습니다. 파일을 삭제하고 있습니다.",
    },
    limit_user: (limit, names) => `동시에 실행할 수 있는 워크스페이스는 최대 ${limit}개입니다. 먼저 하나를 재우세요${names ? `: ${names}` : ""}.`,
    limit_global: (limit) => `이 서버에서는 워크스페이스를 최대 ${limit}개까지 동시에 실행할 수 있는데, 지금은 빈자리가 없습니다. 나중에 다시 시도하세요.`,
    throttled: (n) => `로그인 시도가 너무 많습니다. ${t.for_seconds(n)} 뒤에 다시 시도하세요.`,
    sessions_title: "로그인된 기기",
    sessions_text: "모르는 기기는 로그아웃하세요. 그 기기에서 열려 있던 화면도 바로 닫힙니다.",
    session_current: "이 브라우저",
    session_unknown: "알 수 없는 프로그램",
    session_used: (time, address) => `마지막 사용 ${time}${address ? `, ${address}` : ""}`,
    session_since: (time) => `로그인 ${time}`,
    sign_out_others: "다른 기기 모두 로그아웃",
    unreachable: "서버가 응답하지 않습니다. 연결을 확인하고 다시 시도하세요.",
    unexpected: (status) => `요청을 처리하지 못했습니다(${status}).`,
    name_needed: "워크스페이스 이름을 입력하세요.",
  },
};

const listeners = [];
let language = chosen();

function chosen() {
  // The pages of the gateway read and write the same cookie.
  const cookie = document.cookie.match(/(?:^|; )codehub_lang=(\w+)/)?.[1];
  if (cookie in texts) return cookie;
  const wanted = navigator.languages.map((l) => l.slice(0, 2)).find((l) => l in texts);
  return wanted ?? "en";
}

/** The texts of the chosen language. */
export const t = new Proxy({}, { get: (_, key) => texts[language][key] });

/** The chosen language's tag, for dates. */
export const locale = () => language;

/** A time as people write it, without the date when it is today. */
export function date(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return at.toLocaleString(language, today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

/** A number of bytes as people write it. */
export function size(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  const i = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return new Intl.NumberFormat(language, { style: "unit", unit: units[i], maximumFractionDigits: 1 }).format(bytes / 1000 ** i);
}

/** Calls f now and whenever the language changes. */
export function onLanguage(f) {
  listeners.push(f);
  f();
}

/** What a failed request means, in the user's language. */
export function explain(failure, runningNames = "") {
  if (failure.problem?.scope === "global") return t.limit_global(failure.problem.limit);
  if (failure.problem?.scope === "user") return t.limit_user(failure.problem.limit, runningNames);
  if (failure.problem?.retry_after) return t.throttled(failure.problem.retry_after);
  const kind = failure.problem?.type?.split(":").pop();
  if (kind === "too-many-workspaces") return t.limit_workspaces(failure.problem.limit);
  if (failure.problem?.names) return t.image_unknown(failure.problem.names.join(", "));
  return t.problem[kind] ?? failure.problem?.detail ?? (failure.status ? t.unexpected(failure.status) : t.unreachable);
}

/** A failed request: status is 0 when the server did not answer. */
export class Failure extends Error {
  constructor(status, problem) {
    super(problem?.title ?? `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

// A network that changes, as a laptop's does, ends requests without an answer. A question is
// then asked again after these pauses, in milliseconds; whether a change is made again is for
// people to say.
const pauses = [200, 1000, 3000];

/** Sends a request to the API; returns its answer or throws a Failure. */
export async function api(method, path, body) {
  const init = { method, headers: {}, credentials: "same-origin" };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  for (const pause of method === "GET" ? pauses : []) {
    try {
      return await send(path, init);
    } catch (failure) {
      if (failure.status) throw failure;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return send(path, init);
}

async function send(path, init) {
  const unanswered = () => { throw new Failure(0); };
  const answer = await fetch(`/api/v1/${path}`, init).catch(unanswered);
  const text = await answer.text().catch(init.method === "GET" ? unanswered : () => "");
  let data;
  try { data = text ? JSON.parse(text) : undefined; } catch { /* from a proxy in between */ }
  if (!answer.ok) throw new Failure(answer.status, data);
  return data;
}

function apply() {
  document.documentElement.lang = language;
  for (const el of document.querySelectorAll("[data-text]")) el.textContent = t[el.dataset.text];
  const button = document.getElementById("language");
  button.textContent = t.other;
  button.lang = language === "ko" ? "en" : "ko";
  for (const f of listeners) f();
}

document.getElementById("language").addEventListener("click", () => {
  language = language === "ko" ? "en" : "ko";
  document.cookie = `codehub_lang=${language};path=/;max-age=31536000;samesite=lax${location.protocol === "https:" ? ";secure" : ""}`;
  apply();
});
apply();
