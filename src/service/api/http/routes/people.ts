import {
  requireServiceAccountManagement,
  requireUserKeys,
  requireUserManagement,
} from '../../domain/accounts/access.js'
import { DEFAULT_LIMITS } from '../../domain/context.js'
import {
  createdUserKeyDocument,
  invitedUserDocument,
  keyedServiceAccountDocument,
  serviceAccountDocument,
  userDocument,
  userKeyDocument,
} from '../../domain/documents.js'
import {
  invitationInput,
  pageQuery,
  rotateInput,
  serviceAccountInput,
  userInput,
  userKeyInput,
  userUpdate,
} from '../../domain/inputs.js'
import { type Route, route } from '../route.js'

const full = (most: number, what: string) => ({
  409: { limit_reached: `The limit of ${most} ${what} has been reached.` },
})
const KEYS_FULL = full(DEFAULT_LIMITS.keysPerUser, 'personal keys per user, not counting expired keys,')

const serviceAccounts: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/service-account',
    operation: 'listServiceAccounts',
    tag: 'service account',
    summary: 'Lists the service accounts of the account or, at enterprise scope, of the enterprise.',
    scope: 'account:manage',
    access: requireServiceAccountManagement,
    query: pageQuery,
    answers: { 200: { description: 'A page of service accounts.', list: ['service_account', serviceAccountDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.serviceAccounts.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/service-account',
    operation: 'createServiceAccount',
    tag: 'service account',
    summary: 'Creates a service account and its access key.',
    scope: 'account:manage',
    access: requireServiceAccountManagement,
    body: serviceAccountInput,
    bodyOptional: true,
    answers: {
      201: {
        description: 'The service account. Its key is returned only once.',
        one: ['service_account', keyedServiceAccountDocument],
      },
    },
    refusals: full(DEFAULT_LIMITS.serviceAccounts, 'service accounts'),
    handle: async ({ service, principal, body }) => ({ one: await service.serviceAccounts.create(principal, body) }),
  }),
  route({
    method: 'GET',
    path: '/v3/service-account/{id}',
    operation: 'getServiceAccount',
    tag: 'service account',
    summary: 'Returns a service account.',
    scope: 'account:manage',
    access: requireServiceAccountManagement,
    answers: { 200: { description: 'The service account.', one: ['service_account', serviceAccountDocument] } },
    handle: async ({ service, principal, params }) => ({
      one: await service.serviceAccounts.get(principal, params.id!),
    }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/service-account/{id}',
    operation: 'deleteServiceAccount',
    tag: 'service account',
    summary: 'Deletes a service account and its access key.',
    scope: 'account:manage',
    access: requireServiceAccountManagement,
    answers: { 204: { description: 'It was deleted.' } },
    handle: async ({ service, principal, params }) => {
      await service.serviceAccounts.remove(principal, params.id!)
      return {}
    },
  }),
  route({
    method: 'POST',
    path: '/v3/service-account/{id}/key/rotate',
    operation: 'rotateServiceAccountKey',
    tag: 'service account',
    summary: 'Rotates the access key. The old key stops working immediately, or after the requested grace period.',
    scope: 'account:manage',
    access: requireServiceAccountManagement,
    body: rotateInput,
    bodyOptional: true,
    answers: {
      200: {
        description: 'The service account. Its key is returned only once.',
        one: ['service_account', keyedServiceAccountDocument],
      },
    },
    handle: async ({ service, principal, params, body }) => ({
      one: await service.serviceAccounts.rotate(principal, params.id!, body),
    }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/service-account/{id}/key',
    operation: 'revokeServiceAccountKey',
    tag: 'service account',
    summary: 'Revokes the access key. It is refused from the next request on.',
    scope: 'account:manage',
    access: requireServiceAccountManagement,
    answers: { 204: { description: 'The key was revoked.' } },
    handle: async ({ service, principal, params }) => {
      await service.serviceAccounts.revoke(principal, params.id!)
      return {}
    },
  }),
]

const users: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/user',
    operation: 'listUsers',
    tag: 'user',
    summary: 'Lists the users of the account.',
    scope: 'account:manage',
    access: requireUserManagement,
    query: pageQuery,
    answers: { 200: { description: 'A page of users.', list: ['user', userDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.users.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/user',
    operation: 'createUser',
    tag: 'user',
    summary: 'Creates a user and a first key. The user creates further keys with it.',
    scope: 'account:manage',
    access: requireUserManagement,
    body: userInput,
    answers: { 201: { description: 'The user. The key is returned only once.', one: ['user', invitedUserDocument] } },
    refusals: {
      409: {
        ...full(DEFAULT_LIMITS.users, 'users in the account')[409],
        email_taken: 'The account already has a user with this address.',
      },
    },
    handle: async ({ service, principal, body }) => ({ one: await service.users.create(principal, body) }),
  }),
  route({
    method: 'GET',
    path: '/v3/user/{id}',
    operation: 'getUser',
    tag: 'user',
    summary: 'Returns a user.',
    scope: 'account:manage',
    access: requireUserManagement,
    answers: { 200: { description: 'The user.', one: ['user', userDocument] } },
    handle: async ({ service, principal, params }) => ({ one: await service.users.get(principal, params.id!) }),
  }),
  route({
    method: 'PUT',
    path: '/v3/user/{id}',
    operation: 'updateUser',
    tag: 'user',
    summary: 'Changes the role of a user. This applies to the keys of the user immediately.',
    scope: 'account:manage',
    access: requireUserManagement,
    body: userUpdate,
    answers: { 200: { description: 'The updated user.', one: ['user', userDocument] } },
    refusals: { 409: { last_manager: 'An account must have at least one manager.' } },
    handle: async ({ service, principal, params, body }) => ({
      one: await service.users.update(principal, params.id!, body),
    }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/user/{id}',
    operation: 'deleteUser',
    tag: 'user',
    summary: 'Deletes a user and all keys of the user.',
    scope: 'account:manage',
    access: requireUserManagement,
    answers: { 204: { description: 'It was deleted.' } },
    refusals: { 409: { last_manager: 'An account must have at least one manager.' } },
    handle: async ({ service, principal, params }) => {
      await service.users.remove(principal, params.id!)
      return {}
    },
  }),
  route({
    method: 'POST',
    path: '/v3/user/{id}/invite',
    operation: 'inviteUser',
    tag: 'user',
    summary: 'Creates a new first key for a user, for example after the previous first key was lost.',
    scope: 'account:manage',
    access: requireUserManagement,
    body: invitationInput,
    bodyOptional: true,
    answers: { 200: { description: 'The user. The key is returned only once.', one: ['user', invitedUserDocument] } },
    refusals: KEYS_FULL,
    handle: async ({ service, principal, params, body }) => ({
      one: await service.users.invite(principal, params.id!, body),
    }),
  }),
]

const userKeys: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/user/key',
    operation: 'listUserKeys',
    tag: 'personal key',
    summary: 'Lists the personal keys of the user who sends the request.',
    scope: 'user:key',
    access: requireUserKeys,
    query: pageQuery,
    answers: { 200: { description: 'A page of keys, without their secret part.', list: ['key', userKeyDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.userKeys.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/user/key',
    operation: 'createUserKey',
    tag: 'personal key',
    summary: 'Creates a personal key. Its scopes may be limited, and it may expire.',
    scope: 'user:key',
    access: requireUserKeys,
    body: userKeyInput,
    bodyOptional: true,
    answers: { 201: { description: 'The key. It is returned only once.', one: ['key', createdUserKeyDocument] } },
    refusals: KEYS_FULL,
    handle: async ({ service, principal, body }) => ({ one: await service.userKeys.create(principal, body) }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/user/key/{id}',
    operation: 'revokeUserKey',
    tag: 'personal key',
    summary: 'Revokes a personal key. It is refused from the next request on.',
    scope: 'user:key',
    access: requireUserKeys,
    answers: { 204: { description: 'The key was revoked.' } },
    handle: async ({ service, principal, params }) => {
      await service.userKeys.revoke(principal, params.id!)
      return {}
    },
  }),
]

export const peopleRoutes: readonly Route[] = [...serviceAccounts, ...users, ...userKeys]
